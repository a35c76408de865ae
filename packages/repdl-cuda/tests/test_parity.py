"""Every case on the GPU, or emulated on the CPU: the reference's bits, and the recorded ones.

Emulated with threads in ascending order, and in two other orders.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import repdl
from repdl.registry import OPS, get_backend
from repdl.testing import CONTRACTS, ODD_CONTRACTS, Case, assert_same_bits, cases, check_golden, covers, run_on

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]
SEEDS = {"cuda": ("0",), "cuda-emulated": ("0", "1", "2")}
CASES = [
    (name, case) for name in BACKENDS for case in cases() if case.op in get_backend(name).ops and covers(case, name)
]
ORDERED = [(name, case) for name, case in CASES if "str contract" in OPS[case.op].schema]


def test_parity__a_backend_is_here() -> None:
    assert BACKENDS, {name: row.error for name, row in repdl.backends().items()}


@cache
def expected(case: Case, contract: str) -> Any:
    return run_on(case, contract, "reference")


@pytest.mark.parametrize(("name", "case"), CASES, ids=str)
def test_parity__v1(name: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS[name]:
        monkeypatch.setenv("REPDL_EMULATION_SEED", seed)
        actual = run_on(case, "v1", name)
        assert_same_bits(actual, expected(case, "v1"), f"{case} v1 on {name}, seed {seed}")


@pytest.mark.parametrize("contract", ["sequential", *ODD_CONTRACTS])
@pytest.mark.parametrize(("name", "case"), ORDERED, ids=str)
def test_parity__contract(name: str, case: Case, contract: str) -> None:
    actual = run_on(case, contract, name)
    assert_same_bits(actual, expected(case, contract), f"{case} {contract} on {name}")


@pytest.mark.parametrize(("name", "case"), CASES, ids=str)
def test_parity__golden(name: str, case: Case) -> None:
    for contract in CONTRACTS:
        check_golden(case, name, contract)
