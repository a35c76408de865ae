"""The reference against the recorded bits: what every other backend is then compared to."""

from __future__ import annotations

import pytest

from repdl.registry import OPS
from repdl.testing import CONTRACTS, Case, cases, check_golden, golden

FAMILIES = sorted({op.family for op in OPS.values() if op.distribution == "repdl-core"})


@pytest.mark.parametrize("case", cases(), ids=str)
def test_golden__reference(case: Case) -> None:
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
