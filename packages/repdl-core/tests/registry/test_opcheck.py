"""torch.library.opcheck: schema, autograd registration, fake kernel and dynamic shapes of every op.

Some cases of an op, one of them in bfloat16; all of them, and all traced with dynamic shapes, in the nightly session.
One op of each family is traced here. Cases with a NaN in the output or in a gradient are left out: opcheck compares
two runs, and there NaN differs from NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
import torch

from repdl.registry import OPS
from repdl.testing import Case, cases

NOT_DIFFERENTIABLE = {op.name for op in OPS.values() if op.differentiable is None}
OURS = sorted(op.name for op in OPS.values() if op.distribution == "repdl-core")
PARTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
TRACED = {OPS[op].family: op for op in reversed(OURS)}
"""The op of each family that is traced."""
PREFERRED = ("special", "values", "plain", "empty", "strided", "batched_broadcast", "outer", "dim_0")


def arguments(case: Case) -> tuple[Any, ...]:
    """The case's arguments, its float tensors leaves that require grad where the op has a derivative."""
    if case.op in NOT_DIFFERENTIABLE:
        return case.args()
    return tuple(
        a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in case.args()
    )


def has_nan(case: Case) -> bool:
    """Whether the outputs or the gradients of their sums (which opcheck takes) hold a NaN."""
    args = arguments(case)
    result = OPS[case.op].overload(*args)
    if result is None:
        changed = [x for a in args if isinstance(a, list) for x in a]
        return any(bool(x.isnan().any()) for x in changed if x is not None)
    outputs = [result] if isinstance(result, torch.Tensor) else list(result)
    roots = [y for y in outputs if y.requires_grad]
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    grads = torch.autograd.grad([y.sum().abs() for y in roots], leaves, allow_unused=True) if roots else ()
    return any(bool(t.isnan().any()) for t in (*outputs, *grads) if t is not None and t.is_floating_point())


def usable(op: str, most: int | None = None) -> Iterator[Case]:
    """The preferred cases of an op first: the written ones, and the first one in bfloat16."""
    mine = [case for case in cases(OPS[op].family) if case.op == op]
    mine.sort(key=lambda case: PREFERRED.index(case.name) if case.name in PREFERRED else len(PREFERRED))
    yield from islice((case for case in mine if case.derived is None and not has_nan(case)), most)
    yield from islice((case for case in mine if case.derived is torch.bfloat16 and not has_nan(case)), 1)


def opcheck(case: Case, parts: Sequence[str]) -> None:
    try:
        torch.library.opcheck(OPS[case.op].overload, arguments(case), test_utils=parts)
    except Exception as error:
        raise AssertionError(f"{case}: {error}") from error


@pytest.mark.parametrize("op", OURS)
def test_opcheck__op(op: str) -> None:
    found = list(usable(op, most=2))
    assert found, f"every case of {op} has a NaN"
    for number, case in enumerate(found):
        opcheck(case, PARTS if number == 0 and TRACED[OPS[op].family] == op else PARTS[:-1])


@pytest.mark.nightly
@pytest.mark.parametrize("op", OURS)
def test_opcheck__every_case(op: str) -> None:
    for case in usable(op):
        opcheck(case, PARTS)


@pytest.mark.parametrize("op", OURS)
def test_opcheck__every_op_but_steps_has_a_derivative(op: str) -> None:
    case = next(case for case in cases(OPS[op].family) if case.op == op)
    args = tuple(
        a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in case.args()
    )
    if OPS[op].mutates:
        assert OPS[op].differentiable is None
        return
    result = OPS[op].overload(*args)
    first = result if isinstance(result, torch.Tensor) else result[0]
    if OPS[op].differentiable is None:  # a draw
        assert not first.requires_grad and "position" in OPS[op].host
        return
    assert first.requires_grad
    first.sum().backward()
    assert any(isinstance(a, torch.Tensor) and a.grad is not None for a in args)
