"""Ranks that should hold the same tensors: whether they do, bit for bit."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from repdl.digest import digests
from repdl.errors import RankError


def check_replicas(obj: Any, group: Any = None) -> None:
    """Compare what the ranks of a group hold, bit for bit: parameters before the first step, say.

    Every rank of the group calls it. It sends digests, no tensors.

    Args:
        obj: a tensor, module, optimizer, state dict or nest of these, as for `repdl.digest`; a DTensor counts by the
            part of its rank.
        group: a process group of torch.distributed; None: the default one.

    Raises:
        RankError: on every rank, if one differs from the first; it names the rank, and what differs.
        TypeError: if something inside has no defined content.
    """
    everyone: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, digests(obj), group)
    first = everyone[0]
    for rank, theirs in enumerate(everyone):
        differing = [path or "it" for path in {**first, **theirs} if first.get(path) != theirs.get(path)]
        if differing:
            others = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
            raise RankError(
                f"repdl.distributed.check_replicas: rank {rank} of the group differs from rank 0 in "
                f"{', '.join(differing[:3])}{others}, expected the same bits; seed all ranks alike before the model is "
                f"made, or broadcast its parameters"
            )


__all__ = ["check_replicas"]
