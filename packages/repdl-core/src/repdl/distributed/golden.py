"""A check of the collectives of a cluster against the golden bits of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from repdl.distributed import algorithms
from repdl.distributed.functions import all_reduce
from repdl.distributed.handshake import timeout_of
from repdl.distributed.shared_memory import share
from repdl.distributed.transport import Transport
from repdl.errors import RankError
from repdl.registry import functions
from repdl.testing.cases import cases
from repdl.testing.cases.reduction.all_reduce import numbers
from repdl.testing.compare import hex_digest
from repdl.testing.run import golden

_OPS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "product": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}


def check_collectives(device: torch.device | str = "cpu") -> int:
    """What `repdl.distributed.check` does."""
    world, compared, wrong = dist.get_world_size(), 0, []
    timeout = timeout_of(dist.group.WORLD)
    for size in range(1, world + 1):
        group = dist.new_group(list(range(size)), timeout)
        if dist.get_rank() < size:
            try:
                for what, result, expected in _results(group, size, torch.device(device)):
                    compared += 1
                    if hex_digest(result) != hex_digest(expected):
                        wrong.append(f"rank {dist.get_rank()}: {what} over {size} ranks")
            except Exception as error:  # the other ranks are told, and not left waiting
                wrong.append(f"rank {dist.get_rank()}: {error!r} over {size} ranks")
            dist.destroy_process_group(group)
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, wrong)
    told = [text for texts in everyone for text in texts]
    if told:
        raise RankError(
            f"repdl.distributed.check: {len(told)} reductions differ from the contract: {'; '.join(told[:8])}"
        )
    return compared


def _results(group: Any, size: int, device: torch.device) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """What was reduced, the result, and the right one."""
    rank = dist.get_rank(group)
    memory = None
    if device.type == "cpu":
        store = c10d.PrefixStore("repdl/check", group.get_group_store())
        memory = share(store, rank, size, timeout_of(group))
    transport = Transport(group._get_backend(device), memory)
    for name, op, ranks, expected in _cases(size):
        mine = ranks[rank].contiguous().to(device)
        result = mine.clone()
        all_reduce(result, _OPS[op], group)
        yield name, result.cpu(), expected
        for algorithm in algorithms.ways(transport, mine):
            flat = mine.clone().view(-1)
            algorithm(transport, flat, op)
            yield f"{name} ({algorithm.__name__})", flat.view(mine.shape).cpu(), expected


def _cases(size: int) -> Iterator[tuple[str, str, torch.Tensor, torch.Tensor]]:
    """Golden cases of so many ranks: name, reduction, tensors of all ranks, and the result with the golden digest."""
    found = 0
    for case in cases("all_reduce"):
        ranks, op = case.make()
        if ranks.shape[0] == size and ranks.numel():
            expected = functions.all_reduce(ranks, op)
            if hex_digest(expected) != golden("all_reduce")[str(case)]["v1"]:
                raise RankError(f"repdl.distributed.check: {case} is not the golden bits on rank {dist.get_rank()}")
            found += 1
            yield str(case), op, ranks, expected
    ranks = numbers(size, size, 20_000 + size)
    for op in _OPS:
        yield f"{op} of 20,000 numbers", op, ranks, functions.all_reduce(ranks, op)


__all__ = ["check_collectives"]
