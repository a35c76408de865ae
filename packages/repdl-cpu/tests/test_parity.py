"""Every case on every ISA: the reference's bits, and the recorded ones.

The cross product is cut where axes do not meet: all ISAs with 1 and 3 threads under v1,
the other thread counts and the other contracts on the best ISA only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

import repdl
import repdl.testing
import repdl_cpu
from repdl.registry import OPS, get_backend, implementations
from repdl.testing import CONTRACTS, ODD_CONTRACTS, Case, assert_same_bits, cases, check_golden, covers, run, uniform
from repdl.testing.dtypes import convert

CASES = [case for case in cases() if covers(case, "cpu")]
ISAS = repdl_cpu.supported_isas()


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = repdl.config.state.threads
    yield
    repdl.config.state.threads = before


@cache
def expected(number: int, contract: str) -> Any:
    """The reference's outputs, computed once a case and contract."""
    case = CASES[number]
    return run(case, contract, implementations(get_backend("reference"))[case.op])


def check(number: int, contract: str, *threads: int) -> None:
    """The CPU backend gives the reference's bits with each number of threads."""
    case = CASES[number]
    implementation = implementations(get_backend("cpu"))[case.op]
    for n in threads:
        repdl.set_num_threads(n)
        where = f"{case} {contract} on {repdl_cpu.get_isa()} with {n} threads"
        assert_same_bits(run(case, contract, implementation), expected(number, contract), where)


def by_case(*numbers: int) -> pytest.MarkDecorator:
    """A test for each of these cases, by default for all."""
    chosen = numbers or tuple(range(len(CASES)))
    return pytest.mark.parametrize("number", chosen, ids=[str(CASES[n]) for n in chosen])


ORDERED = [n for n, case in enumerate(CASES) if "str contract" in OPS[case.op].schema]
"""The cases whose order a contract chooses."""


@pytest.mark.parametrize("isa", ISAS)
@by_case()
def test_parity__isa(number: int, isa: str) -> None:
    with repdl_cpu.use_isa(isa):
        check(number, "v1", 1, 3)


@by_case()
def test_parity__threads(number: int) -> None:
    check(number, "v1", 2, 7)


@by_case(*ORDERED)
@pytest.mark.parametrize("contract", ["sequential", *ODD_CONTRACTS])
def test_parity__contract(number: int, contract: str) -> None:
    check(number, contract, 1, 3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parity__golden(case: Case) -> None:
    for contract in CONTRACTS:
        check_golden(case, "cpu", contract)


PRODUCTS = {"matmul", "linear", "conv2d", "conv2d_grad_input", "conv2d_grad_weight"}
DOUBLE_PRODUCTS = [case for case in cases() if case.op in PRODUCTS and not case.derived]
"""All in float64: the kernels are others than the float32 ones, and few cases are derived in it."""


BEYOND_BLOCKS = [
    Case("matmul", "blocks", lambda: (uniform(1, 131, 3), uniform(2, 3, 517), False, False)),
    Case("linear", "long", lambda: (uniform(1, 3, 2300), uniform(2, 5, 2300), uniform(3, 5))),
]
"""Shapes with several blocks of rows and columns, and with several pieces of a chain."""


@pytest.mark.parametrize(
    ("case", "contract"),
    [(case, ODD_CONTRACTS[0]) for case in DOUBLE_PRODUCTS]
    + [(case, contract) for case in BEYOND_BLOCKS for contract in ("v1", "sequential", ODD_CONTRACTS[1])],
    ids=str,
)
def test_parity__double_products(case: Case, contract: str) -> None:
    args = convert(case.op, case.make(), torch.float64)
    case = replace(case, make=lambda: args)
    want = run(case, contract, implementations(get_backend("reference"))[case.op])
    for isa in ISAS:
        for threads in (1, 3):
            repdl.set_num_threads(threads)
            with repdl_cpu.use_isa(isa):
                got = run(case, contract, implementations(get_backend("cpu"))[case.op])
            assert_same_bits(got, want, f"{case} {contract} on {isa} with {threads} threads")
