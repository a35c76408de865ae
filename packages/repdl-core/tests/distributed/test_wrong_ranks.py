"""Ranks that differ or fail end with an error on all ranks, and planted mistakes are found."""

from __future__ import annotations

from pathlib import Path

import pytest
import ranks
import wrong_ranks

pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.nightly), 3])
def test_wrong_ranks__another_contract(world: int) -> None:
    for told in ranks.run(wrong_ranks.other_contract, world):
        assert told.startswith("RankError") and f"rank {world - 1} of the group differs from rank 0" in told, told
        assert "contract is sequential, expected v1" in told and "world size" not in told, told


def test_wrong_ranks__another_contract_in_a_later_group(tmp_path: Path) -> None:
    for told in ranks.run(wrong_ranks.other_contract_later, 2, str(tmp_path)):
        assert "rank 1 of the group differs from rank 0: contract is sequential, expected v1" in told, told


def test_wrong_ranks__another_version() -> None:
    for told in ranks.run(wrong_ranks.other_version, 2):
        assert "rank 1 of the group differs from rank 0: repdl is 0.0.9, expected 0." in told, told


@pytest.mark.parametrize("name", ["0.weight", "1.running_var"])
def test_wrong_ranks__one_bit_of_a_replica(name: str) -> None:
    for same, told in ranks.run(wrong_ranks.another_bit, 3, name):
        assert same == "nothing", same
        assert told.startswith(
            f"RankError: repdl.distributed.check_replicas: rank 2 of the group differs from rank 0 in {name}, "
        )


def test_wrong_ranks__replicas_that_cannot_be_compared() -> None:
    """No rank waits for another."""
    (first, sharded), (second, _) = ranks.run(wrong_ranks.replicas_that_fail, 2)
    assert first.startswith("RankError: repdl.distributed.check_replicas: rank 1 of the group failed: digest: "), first
    assert second.startswith("TypeError: digest: "), second
    assert sharded.startswith("TypeError: digest: /0 is a DTensor"), sharded


def test_wrong_ranks__one_is_not_enabled() -> None:
    first, second = ranks.run(wrong_ranks.not_enabled, 2, timeout=4.0)
    assert "rank 1 of the group did not begin its first reduction within 0:00:04" in first, first
    assert "call repdl.enable() on all ranks" in first and second != "nothing", (first, second)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_wrong_ranks__one_ends(how: str) -> None:
    """torch's own errors come through, from a reduction that is waited for and from one that is not."""
    found = ranks.outcomes(wrong_ranks.ends, 2, how, timeout=4.0, endless=[1])
    told = found[0].value
    assert told is not None, found
    assert all(text.strip().startswith(("RuntimeError", "Dist")) for text in told.split("|")), told
    if how == "stopped":
        assert "imed out" in told, told


def test_wrong_ranks__an_error_in_the_backward_pass() -> None:
    """Of a reduction in the thread of a group: it reaches the program, and the process goes on."""
    for told in ranks.run(wrong_ranks.fails_in_backward, 2):
        assert told.startswith("RuntimeError") and "ValueError: no such network" in told, told


@pytest.mark.parametrize("name", ["swapped", "in_arrival_order", "dropped"])
def test_wrong_ranks__wrong_order_is_found(name: str) -> None:
    """Whichever rank it is on, every rank is told."""
    for told in ranks.run(wrong_ranks.wrong, 3, name):
        assert told.startswith("RankError: repdl.distributed.check") and "over 3 ranks" in told, told


def test_wrong_ranks__wrong_pairs_are_found() -> None:
    for told in ranks.run(wrong_ranks.swapped_pairs, 4):
        assert "over 4 ranks" in told and "over 2 ranks" not in told, told


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.nightly), 3])
def test_wrong_ranks__a_bucket_that_is_reduced_twice(world: int) -> None:
    for right, other in ranks.run(wrong_ranks.reduced_twice, world):
        assert right != other
