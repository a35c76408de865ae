"""Numbers of ops that no float32 is: each is a double until the contract rounds it, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from repdl.errors import RepDLError
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing import Case, assert_same_bits, cases, run_on

NUMBERS = 1 / 3, 0.1, 2 / 3, 1 - 2.0**-26, 2.0**-30
"""What is lost of them in float32 is seen in a difference from 1, a product or a quotient."""
MOST = 6000
CPU = implementations(get_backend("cpu"))


def places(case: Case) -> list[int]:
    """The arguments that are numbers with a fraction; 0 may switch off what needs further tensors."""
    args = case.args()
    is_number = (str(a.type) == "float" for a in OPS[case.op].overload._schema.arguments)
    return [i for i, (wanted, value) in enumerate(zip(is_number, args)) if wanted and value != 0]


def size(args: tuple[Any, ...]) -> int:
    tensors = (t for a in args for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor))
    return sum(t.numel() for t in tensors)


def chosen() -> Iterator[Case]:
    """Some small cases of each op that has such numbers."""
    count: Counter[str] = Counter()
    for case in cases():
        is_one = case.op in CPU and case.derived is None and count[case.op] < 4
        if is_one and places(case) and 0 < size(case.args()) <= MOST:
            count[case.op] += 1
            yield case


CASES = list(chosen())


def test_scalars__every_op_with_numbers_is_there() -> None:
    schemas = {op: OPS[op].overload._schema for op in CPU if op in OPS}
    wanted = {op for op, schema in schemas.items() if any(str(a.type) == "float" for a in schema.arguments)}
    assert wanted - {case.op for case in CASES} == set()
    assert len(wanted) > 30


@pytest.mark.parametrize("op", sorted({case.op for case in CASES}))
def test_scalars__are_doubles(op: str) -> None:
    compared = 0
    for case in CASES:
        for place in places(case) if case.op == op else ():
            for number in NUMBERS:
                changed = replace(case, make=partial(_with, case, place, number))
                try:
                    expected = run_on(changed, "v1", "reference")
                except RepDLError:  # a number that the op refuses
                    continue
                assert_same_bits(run_on(changed, "v1", "cpu"), expected, f"{case}, argument {place} is {number}")
                compared += 1
    assert compared > 0


def _with(case: Case, place: int, number: float) -> tuple[Any, ...]:
    args = list(case.args())
    args[place] = number
    return tuple(args)
