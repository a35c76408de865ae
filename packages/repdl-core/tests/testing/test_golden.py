"""The reference against the recorded bits: what every other backend is then compared to."""

from __future__ import annotations

import pytest

import repdl
from repdl.registry import OPS, implementation
from repdl.registry.backend import get_backend
from repdl.testing import CONTRACTS, Case, cases, check_golden, covers, golden

FAMILIES = sorted({op.family for op in OPS.values() if op.distribution == "repdl-core"})
OTHERS = [name for name, row in repdl.backends().items() if row.error is None and name != "reference"]


def in_a_parity_suite(case: Case) -> bool:
    """Whether a backend that is installed runs the case: its parity suite compares the reference's bits, too, those of
    derived cases at night."""
    return any(implementation(get_backend(name), case.op) and covers(case, name) for name in OTHERS)


def test_golden__reference() -> None:
    for case in cases():
        if not in_a_parity_suite(case):
            for contract in CONTRACTS if OPS[case.op].has_order else CONTRACTS[:1]:
                check_golden(case, "reference", contract)


@pytest.mark.parametrize("family", FAMILIES)
def test_golden__files_hold_exactly_the_cases(family: str) -> None:
    mine = cases(family)
    names = [str(case) for case in mine]
    assert len(names) == len(set(names)), "two cases of one name"
    assert sorted(golden(family)) == sorted(names)
    for case in mine:
        digests = golden(family)[str(case)]
        assert sorted(digests) == sorted(CONTRACTS)
        assert OPS[case.op].has_order or len(set(digests.values())) == 1, f"{case}: {case.op} has one order"


def test_golden__wrong_digest_is_reported() -> None:
    case = cases("matmul")[0]
    recorded = golden("matmul")[str(case)]
    right = recorded["v1"]
    try:
        recorded["v1"] = "0" * 64
        with pytest.raises(AssertionError, match="recorded 0000"):
            check_golden(case, "reference", "v1")
    finally:
        recorded["v1"] = right
