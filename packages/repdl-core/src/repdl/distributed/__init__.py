"""torch.distributed's collectives, whose reductions have the same bits by any transport.

The functions have torch's names and signatures, and take the process groups that torch made. Those that reduce
(`all_reduce`, `reduce`, `reduce_scatter`, ...) join the ranks by the tree of the contract (`all_reduce.md`); those that
move data are torch's own. Under `repdl.enable()` torch's own functions do the same.
"""

from __future__ import annotations

import torch
from torch.distributed import (
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    irecv,
    isend,
    recv,
    scatter,
    scatter_object_list,
    send,
)

from repdl.distributed.functions import (
    all_reduce,
    all_reduce_coalesced,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
)
from repdl.distributed.replicas import check_replicas


def check(device: torch.device | str = "cpu") -> int:
    """Compare reductions by every algorithm with the golden bits, in groups of the first 1, 2, ... ranks of the world.

    Every rank of the world calls it. Groups of more ranks than golden bits have (9) are compared with the op
    `all_reduce` on each rank.

    Returns:
        The number of reductions that this rank has compared.

    Raises:
        RankError: on every rank, if a result differs on one; it names the ranks and the cases.
    """
    from repdl.distributed.golden import check_collectives  # with all cases, which a program does without

    return check_collectives(device)


__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "check",
    "check_replicas",
    "gather",
    "gather_object",
    "irecv",
    "isend",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]
