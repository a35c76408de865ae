"""Before its first reduction a group makes sure that all of its ranks compute by one contract."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from repdl.contract import get_contract
from repdl.errors import RankError

_greeted: WeakSet[Any] = WeakSet()


def identity(group: Any) -> dict[str, str]:
    """What has to be the same on all ranks of a group."""
    return {
        "contract": str(get_contract()),
        "repdl": sys.modules["repdl"].__version__,
        "torch": torch.__version__.partition("+")[0],
        "world size": str(dist.get_world_size()) if dist.is_initialized() else str(group.size()),
        "ranks of the group": _ranks(group),
    }


def _ranks(group: Any) -> str:
    try:
        return str(dist.get_process_group_ranks(group))
    except (KeyError, ValueError):  # a group that torch.distributed has no list of
        return str(list(range(group.size())))


def greet(group: Any) -> None:
    """Compare the identities of all ranks, once for a group.

    Raises:
        RankError: on every rank, if one of them differs; it names the rank and what differs.
    """
    if group in _greeted or group.size() == 1:
        return
    mine, store = identity(group), c10d.PrefixStore("repdl/handshake", group.get_group_store())
    store.set(f"rank{group.rank()}", json.dumps(mine))
    if group.rank() == 0:
        store.set("verdict", _verdict(store, mine, group))
    verdict = _read(store, "verdict", group, "rank 0").decode()
    if verdict != _SAME:
        raise RankError(verdict)
    _greeted.add(group)


_SAME = "same"


def _verdict(store: Any, mine: dict[str, str], group: Any) -> str:
    """What rank 0 says to all."""
    for rank in range(1, group.size()):
        try:
            theirs = json.loads(_read(store, f"rank{rank}", group, f"rank {rank}"))
        except RankError as error:
            return str(error)
        differing = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if differing:
            told = "; ".join(f"{name} is {theirs.get(name)}, expected {mine.get(name)}" for name in differing)
            return (
                f"repdl.distributed: rank {rank} of the group differs from rank 0: {told}; run one program with one "
                f"contract and the same versions on all ranks"
            )
    return _SAME


def _read(store: Any, key: str, group: Any, who: str) -> bytes:
    timeout = timeout_of(group)
    try:
        store.wait([key], timeout)
    except (RuntimeError, dist.DistStoreError) as error:
        raise RankError(
            f"repdl.distributed: {who} of the group did not begin its first reduction within {timeout}: it ended, "
            f"waits for another collective, or computes without RepDL; call repdl.enable() on all ranks"
        ) from error
    return bytes(store.get(key))


def timeout_of(group: Any) -> timedelta:
    """How long a group waits for its ranks."""
    for device in group._device_types:
        options = getattr(group._get_backend(device), "options", None)
        if options is not None:
            return timedelta(seconds=options._timeout.total_seconds())
    return timedelta(minutes=30)


__all__ = ["greet", "identity", "timeout_of"]
