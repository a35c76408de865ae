"""Collectives of several ranks: the contract's bits from every function, by every algorithm."""

from __future__ import annotations

import sys

import collective_calls as calls
import pytest
import ranks

pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)
WORLDS = 1, 2, 3, 4


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("world", WORLDS)
def test_collectives__have_the_bits_of_the_contract(world: int, enabled: bool) -> None:
    """`repdl.distributed`'s functions, and torch's under `enable()`."""
    assert ranks.run(calls.differing, world, enabled) == [[]] * world


@pytest.mark.parametrize("world", WORLDS)
def test_collectives__algorithms_have_one_result(world: int) -> None:
    for found in ranks.run(calls.by_each_algorithm, world, 50_003):
        assert all(found.values()), found
        assert any(name.startswith("halved") for name in found) == (world in (1, 2, 4))
        assert any(name.startswith("shared") for name in found) == (sys.platform == "linux")


@pytest.mark.parametrize("rank", [0, 1])
def test_collectives__ranks_that_share_no_memory(rank: int) -> None:
    """One of them can't map it, so that none uses it."""
    assert ranks.run(calls.apart, 3, rank) == [(False, True)] * 3


@pytest.mark.parametrize("world", [2, 3])
def test_collectives__parts_of_large_tensors(world: int) -> None:
    for found in ranks.run(calls.scattered_in_pieces, world):
        assert len(found) == 8 and all(found), found


@pytest.mark.parametrize("world", WORLDS[1:])
def test_collectives__in_small_pieces(world: int) -> None:
    assert ranks.run(calls.in_small_pieces, world) == [[]] * world


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.nightly), 3])
def test_collectives__functional(world: int) -> None:
    assert ranks.run(calls.functional, world, 600) == [True] * world
    assert ranks.run(calls.functional, world, 60_000) == [True] * world


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.nightly), 3])
def test_collectives__premultiplied_sums(world: int) -> None:
    assert ranks.run(calls.premultiplied, world) == [True] * world


def test_collectives__refused() -> None:
    for told in ranks.run(calls.refused, 2):
        assert "tensors of another layout (SparseCPU)" in told["sparse"]
        assert "tensor.dtype is torch.float8_e5m2, expected float32" in told["float8"]
        assert "op is BAND" in told["bits"]
        assert "call repdl.distributed.all_reduce" in told["factor"]
        assert "name the rank" in told["any rank"]
        assert "expected 2 times the 3 of output" in told["shapes"]


@pytest.mark.parametrize("world", WORLDS)
def test_collectives__check(world: int) -> None:
    found = ranks.run(calls.checked, world)
    assert min(found) > 0 and found == sorted(found, reverse=True)  # rank 0 is in every group


def test_collectives__calls_that_differ() -> None:
    """They raise on both ranks, which can go on."""
    zero, one = ranks.run(calls.disagreeing, 2)
    for rank, found in enumerate((zero, one)):
        assert all(is_right for _, is_right in found.values()), found
        told = {name: text for name, (text, _) in found.items()}
        assert all(
            text.startswith(f"RankError: repdl.distributed: rank {1 - rank} of the group: ") for text in told.values()
        )
        assert "of 20000 elements" in told["sizes"] and "of 30000 elements" in told["sizes"]
        assert "of torch.float32" in told["dtypes"] and "of torch.bfloat16" in told["dtypes"]
        assert "(sum)" in told["reductions"] and "(max)" in told["reductions"]
        assert "all_reduce" in told["functions"] and "reduce_scatter" in told["functions"]


@pytest.mark.parametrize(("error", "later"), [(MemoryError, False), (MemoryError, True), (KeyboardInterrupt, False)])
def test_collectives__a_rank_that_fails_once(error: type[BaseException], later: bool) -> None:
    """The other one is told, and what they reduce after it is right."""
    (zero, zero_is_right), (one, one_is_right) = ranks.run(calls.failing, 2, error, later)
    assert zero[0].startswith("RankError: repdl.distributed: rank 1 of the group: ") and "failed when it" in zero[0]
    assert one[0] == f"{error.__name__}: no more memory"
    assert zero[1:] == one[1:] == ["nothing", "nothing", "30.0", "300.0", "30.0", "300.0"]
    assert zero_is_right and one_is_right
