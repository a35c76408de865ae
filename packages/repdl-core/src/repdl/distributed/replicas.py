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
        obj: a tensor, module, optimizer, state dict or nest of these, as for `repdl.digest`. A DTensor is refused: pass
            its `full_tensor()`.
        group: a process group of torch.distributed; None: the default one.

    Raises:
        RankError: on every rank, if one differs from the first; it names the rank, and what differs. On the other ranks
            too if one can't compute digests; and in a process that is not in the group.
        TypeError: on a rank where something inside has no defined content.
    """
    if dist.get_rank(group) < 0:
        raise RankError("repdl.distributed.check_replicas: this process is not in the group, expected one of its ranks")
    failed: Exception | None = None
    mine: dict[str, str] = {}
    try:
        mine = digests(obj)
    except Exception as error:
        failed = error
    everyone: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, (mine, None if failed is None else str(failed)), group)
    if failed is not None:
        raise failed
    for rank, (_, said) in enumerate(everyone):
        if said is not None:
            raise RankError(f"repdl.distributed.check_replicas: rank {rank} of the group failed: {said}")
    first = everyone[0][0]
    for rank, (theirs, _) in enumerate(everyone):
        differing = [_shown(path) for path in {**first, **theirs} if first.get(path) != theirs.get(path)]
        if differing:
            others = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
            raise RankError(
                f"repdl.distributed.check_replicas: rank {rank} of the group differs from rank 0 in "
                f"{', '.join(differing[:3])}{others}, expected the same bits; seed all ranks alike before the model is "
                f"made, or broadcast its parameters"
            )


def _shown(path: str) -> str:
    """A path as people write it."""
    return path.replace("/str:", "/").strip("/") or "the object itself"


__all__ = ["check_replicas"]
