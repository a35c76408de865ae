"""Ranks that differ, end, stop, or reduce in a wrong order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import repdl
from repdl.distributed import algorithms
from repdl.distributed.replicas import check_replicas
from repdl.distributed.transport import Transport
from repdl.registry import functions


def other_contract() -> str:
    """The last rank computes by another contract."""
    if dist.get_rank() == dist.get_world_size() - 1:
        repdl.set_contract("sequential")
    return _error(lambda: repdl.distributed.all_reduce(torch.ones(3)))


def other_contract_later(folder: str) -> str:
    """Of the default group that is made after another one has ended."""
    repdl.enable()
    dist.all_reduce(torch.ones(3))
    rank, world = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    if rank == world - 1:
        repdl.set_contract("sequential")
    dist.init_process_group("gloo", init_method=f"file://{folder}/later", rank=rank, world_size=world)
    return _error(lambda: dist.all_reduce(torch.ones(3)))


def other_version() -> str:
    if dist.get_rank() == 1:
        repdl.__version__ = "0.0.9"
    return _error(lambda: repdl.distributed.all_reduce(torch.ones(3)))


def not_enabled() -> str:
    """Rank 1 reduces by torch alone."""
    if dist.get_rank() == 1:
        return _error(lambda: dist.all_reduce(torch.ones(3)))
    repdl.enable()
    return _error(lambda: dist.all_reduce(torch.ones(3)))


def ends(how: str) -> str:
    """Rank 1 ends, or stops, between two reductions; the others wait for it."""
    x, reduce = torch.ones(50_000), repdl.distributed.all_reduce
    reduce(x, async_op=True).wait()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    begun = time.monotonic()
    waited = _error(lambda: reduce(x))
    later = _error(lambda: reduce(x, async_op=True).wait())
    assert time.monotonic() - begun < 60
    return f"{waited} | {later}"


def fails_in_backward() -> str:
    """A reduction that DistributedDataParallel, which is C++, waits for."""
    repdl.enable()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 3))

    def fails(*_: Any) -> None:
        raise ValueError("no such network")

    with patch.object(algorithms, "all_reduce", fails):
        return _error(lambda: model(torch.ones(2, 4)).sum().backward())


def another_bit(name: str) -> tuple[str, str]:
    """What is said of replicas, and of replicas of which the last rank has another last bit of one tensor."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    same = _error(lambda: check_replicas(model))
    if dist.get_rank() == dist.get_world_size() - 1:
        model.state_dict()[name].view(torch.int32).view(-1)[-1].bitwise_xor_(1)
    return same, _error(lambda: check_replicas(model))


def replicas_that_fail() -> tuple[str, str]:
    """What is said where one rank holds what has no content, and of a DTensor."""
    local = torch.ones(4)
    told = _error(lambda: check_replicas({"extra": print if dist.get_rank() else 1}))
    sharded = distribute_tensor(local, init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(0)])
    return told, _error(lambda: check_replicas([sharded]))


def _error(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def swapped(ranks: torch.Tensor, op: str) -> torch.Tensor:
    """As if ranks 1 and 2 had changed places."""
    return functions.all_reduce(ranks[[0, 2, 1, *range(3, len(ranks))]], op)


def in_arrival_order(ranks: torch.Tensor, op: str) -> torch.Tensor:
    """`+=` of what comes, the last rank first."""
    total = ranks[-1].clone()
    for rank in reversed(range(len(ranks) - 1)):
        total += ranks[rank]
    return total / len(ranks) if op == "avg" else total


def dropped(ranks: torch.Tensor, op: str) -> torch.Tensor:
    """Without the last rank."""
    return functions.all_reduce(ranks[:-1], op)


def wrong(name: str) -> str:
    """What the check of a cluster says of ranks that reduce in a wrong order."""
    right, planted = algorithms.reduce_ranks, {f.__name__: f for f in (swapped, in_arrival_order, dropped)}[name]

    def reduce_ranks(ranks: torch.Tensor, op: str, output: torch.Tensor) -> None:
        if len(ranks) > 2 and op in ("sum", "avg"):
            output.copy_(planted(ranks, op))
        else:
            right(ranks, op, output)

    with patch.object(algorithms, "reduce_ranks", reduce_ranks):
        return _error(repdl.distributed.check)


def swapped_pairs() -> str:
    """Recursive halving with the far ranks first: another tree."""
    halved = algorithms.halved

    def far_first(transport: Transport, flat: torch.Tensor, op: str) -> None:
        far = transport.rank if transport.size < 4 else (transport.rank & 1) * 2 + (transport.rank >> 1)
        other = _Renamed(transport, far)
        halved(other, flat, op)  # type: ignore[arg-type]

    with patch.object(algorithms, "halved", far_first):
        return _error(repdl.distributed.check)


class _Renamed:
    """A transport whose ranks 1 and 2 of 4 have changed their numbers."""

    def __init__(self, transport: Transport, rank: int) -> None:
        self._transport, self.rank, self.size, self.has_pairs = transport, rank, transport.size, transport.has_pairs

    def exchange(self, sent: torch.Tensor, received: torch.Tensor, peer: int) -> Callable[[], None]:
        real = peer if self.size < 4 else (peer & 1) * 2 + (peer >> 1)
        return self._transport.exchange(sent, received, real)


def reduced_twice() -> tuple[str, str]:
    """The digests of a DDP program, and of one of which every bucket is reduced twice."""
    import ddp_programs

    repdl.enable()
    right, once = ddp_programs.train(ddp_programs.Program()), algorithms.all_reduce

    def twice(transport: Transport, flat: torch.Tensor, op: str) -> None:
        once(transport, flat, op)
        once(transport, flat, op)

    with patch.object(algorithms, "all_reduce", twice):
        return right, ddp_programs.train(ddp_programs.Program())
