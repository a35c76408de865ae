"""The algorithms of an all_reduce on more ranks than a machine has, in one process: bits, and what travels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import ranks
import torch

import repdl
from repdl.errors import RankError
from repdl.ops.reduction.all_reduce import join_ranks
from repdl.registry import functions
from repdl.testing import assert_same_bits
from repdl.testing.inputs import SPECIAL

if not ranks.AVAILABLE:
    pytest.skip(ranks.NEEDS, allow_module_level=True)

from repdl.distributed import algorithms, shared_memory
from repdl.distributed.simulation import Simulated, simulate


@pytest.mark.parametrize("name", ["gathered", "sharded", "halved", "shared"])
@pytest.mark.parametrize("world", [1, 2, 3, 7, 16, 100])
def test_simulated__same_bits(world: int, name: str) -> None:
    """Of the op of the contract, of as many elements as ranks, and fewer and more."""
    if name == "halved" and world & (world - 1):
        pytest.skip("for a power of two of ranks")
    for elements in (1, world, 2 * world + world // 2 + 1):
        tensors = repdl.random.randn(world, elements)
        for op in ("sum", "avg"):
            expected = functions.all_reduce(tensors, op)
            found = simulate(getattr(algorithms, name), tensors, op).tensors
            assert {repdl.digest(x) for x in found} == {repdl.digest(expected)}, (elements, op)


@pytest.mark.parametrize("elements", [1, 5, 16, 17, 100])
def test_simulated__memory_that_is_filled_several_times(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 numbers a rank; one after the other, as a program reduces."""
    monkeypatch.setattr(shared_memory, "_LARGEST_SLOT", 64)
    monkeypatch.setattr(shared_memory, "_PAGE", 4)
    tensors = repdl.random.randn(6, elements)

    def twice(transport: Any, flat: torch.Tensor, op: str) -> None:
        algorithms.shared(transport, flat, op)
        algorithms.shared(transport, flat, op)

    once = functions.all_reduce(tensors, "sum")
    expected = functions.all_reduce(once.expand(6, elements).contiguous(), "sum")
    assert {repdl.digest(x) for x in simulate(twice, tensors, "sum").tensors} == {repdl.digest(expected)}


@pytest.mark.parametrize("missing", [0, 1])
def test_simulated__a_barrier_that_is_left_out_is_seen(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right, met = Simulated.barrier, [itertools.count(), itertools.count()]

    def barrier(self: Simulated) -> None:
        if next(met[self.rank]) % 2 != missing:
            right(self)

    monkeypatch.setattr(Simulated, "barrier", barrier)
    tensors = repdl.random.randn(2, 100)
    with pytest.raises(RankError, match="rank 1 of the group: nothing; rank 0: .* all_reduce"):
        simulate(algorithms.shared, tensors, "sum")


@pytest.mark.parametrize("world", [6, 64, 200])
def test_simulated__bytes(world: int) -> None:
    """No rank sends more than in a ring, but for what is small. 64 ranks have no part that is left over."""
    tensors = torch.ones(world, 2 * world + (world // 2 if world != 64 else 0))
    ring = 2 * (world - 1) * tensors[0].nbytes // world
    assert simulate(algorithms.sharded, tensors, "sum").bytes <= 2 * ring + algorithms.SMALL
    if world == 64:
        assert {simulate(way, tensors, "sum").bytes for way in (algorithms.sharded, algorithms.halved)} == {ring}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("op", ["sum", "avg", "product", "max", "min"])
def test_simulated__a_tensor_that_is_written_is_the_left_or_the_right_one(op: str, dtype: torch.dtype) -> None:
    """Zeros, infinities, NaN of both signs and payloads: max and min of zeros depend on which is which."""
    nans = torch.tensor([0x7F800001, -4, 0x7FC12345], dtype=torch.int32).view(torch.float32)
    values = torch.cat([torch.tensor([*SPECIAL, -2.0, 3.5]), -torch.tensor(SPECIAL), nans]).to(dtype)
    left, right = torch.cartesian_prod(values, values).unbind(1)
    expected = join_ranks([left, right], op)
    for _ in range(3):  # the third one repeats a recording
        for given, other, is_left in ((left, right, True), (right, left, False)):
            kept = given.clone()
            algorithms.join_into(kept, other, op, is_left)
            assert_same_bits(kept, expected, f"{op}, {is_left}")


@pytest.mark.parametrize("planted", ["join_into", "reduce_ranks"])
def test_simulated__wrong_order_is_seen(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = getattr(algorithms, planted)

    def wrong(first: torch.Tensor, *others: Any, **options: Any) -> None:
        if planted == "join_into":
            right(first, others[0].flip(0), *others[1:], **options)
        else:
            right(first.roll(1, 0), *others)

    monkeypatch.setattr(algorithms, planted, wrong)
    tensors = repdl.random.randn(8, 100)
    name = "halved" if planted == "join_into" else "sharded"
    found = simulate(getattr(algorithms, name), tensors, "sum").tensors[0]
    assert repdl.digest(found) != repdl.digest(functions.all_reduce(tensors, "sum"))


def test_simulated__a_rank_that_fails() -> None:
    def fails(transport: Any, flat: torch.Tensor, op: str) -> None:
        if transport.rank == 2:
            raise ValueError("this rank fails")
        algorithms.halved(transport, flat, op)

    with pytest.raises(ValueError, match="this rank fails"):
        simulate(fails, torch.ones(4, 9), "sum")
