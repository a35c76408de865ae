"""Every case on every ISA: the reference's bits, and the recorded ones.

The cross product is cut where axes do not meet: all ISAs with 1 and 3 threads under v1,
the other thread counts and the other contracts on the best ISA only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import repdl
import repdl.testing
import repdl_cpu
from repdl.registry import OPS, get_backend, implementations
from repdl.testing import CONTRACTS, ODD_CONTRACTS, Case, assert_same_bits, cases, check_golden, covers, run

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
