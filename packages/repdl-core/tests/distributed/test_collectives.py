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
