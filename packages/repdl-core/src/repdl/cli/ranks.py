"""`repdl check --distributed`: the collectives of a cluster, by the processes that torchrun has started."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

import repdl
from repdl.distributed.golden import check_collectives
from repdl.errors import RankError


def check_ranks() -> int:
    """Compare reductions over ranks with the golden bits; 1 if one differs, 2 if no launcher has started this process.

    On GPUs by NCCL, if this process has one, else by gloo.
    """
    if not dist.is_available() or "RANK" not in os.environ:
        print(
            "repdl check --distributed: RANK is not in the environment, expected ranks of a launcher: "
            "torchrun --nproc-per-node 2 -m repdl check --distributed",
            file=sys.stderr,
        )
        return 2
    local = int(os.environ.get("LOCAL_RANK", "0"))
    has_gpu = local < torch.cuda.device_count()
    device = torch.device("cuda", local) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpu else "gloo")
    try:
        compared = check_collectives(device)
    except RankError as error:
        print(error, file=sys.stderr)
        return 1
    if dist.get_rank() == 0:
        world, backend = dist.get_world_size(), dist.get_backend()
        print(f"repdl {repdl.__version__}: {compared} reductions over 1 to {world} ranks by {backend}, 0 differ")
    dist.destroy_process_group()
    return 0


__all__ = ["check_ranks"]
