"""Functions that run on several ranks: processes of this machine, which speak by gloo."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

AVAILABLE = torch.distributed.is_available() and hasattr(torch.library, "get_kernel")
NEEDS = "needs torch 2.13 with torch.distributed"
TIMEOUT = 20.0
"""Seconds that a collective waits for other ranks."""


@dataclass
class Outcome:
    """What a rank returned, or the error that it ended with."""

    value: Any = None
    error: str | None = None


class RankFailedError(AssertionError):
    """A rank raised, or did not end."""


def outcomes(
    function: Callable[..., Any], world: int, *args: Any, environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT, limit: float = 120.0, endless: Collection[int] = (),
) -> list[Outcome]:  # fmt: skip
    """What came of `function(*args)` on each rank, in a default group of `world` ranks.

    Args:
        function: of a module that can be imported.
        environment: of all ranks, set before anything is computed.
        timeout: of the group, in seconds.
        limit: seconds after which ranks are killed.
        endless: ranks that do not end, and are killed after the others.
    """
    context = multiprocessing.get_context("forkserver")
    _start_server(context)
    with tempfile.TemporaryDirectory() as folder:
        store, ends, processes = Path(folder) / "store", [], []
        for rank in range(world):
            end, theirs = context.Pipe(duplex=False)
            arguments = theirs, function, args, rank, world, str(store), dict(environment or {}), timeout
            process = context.Process(target=_rank, args=arguments, daemon=True)
            process.start()
            theirs.close()
            ends.append(end)
            processes.append(process)
        until = time.monotonic() + limit
        found = [_outcome(end, 0.0 if rank in endless else until) for rank, end in enumerate(ends)]
        for rank, process in enumerate(processes):
            process.join(0 if rank in endless else max(0.0, until - time.monotonic()))
            process.kill()
    return found


def run(function: Callable[..., Any], world: int, *args: Any, **options: Any) -> list[Any]:
    """What `function(*args)` returned on each rank; raises if it raised on one."""
    found = outcomes(function, world, *args, **options)
    for rank, outcome in enumerate(found):
        if outcome.error is not None:
            raise RankFailedError(f"rank {rank} of {world}: {outcome.error}")
    return [outcome.value for outcome in found]


def _start_server(context: Any) -> None:
    """With one thread a process: ranks are forked from it, and it has computed nothing."""
    context.set_forkserver_preload(["warm_ranks"])
    here = str(Path(__file__).parent)
    paths = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    with patch.dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=paths):
        forkserver.ensure_running()


def _outcome(end: Connection, until: float) -> Outcome:
    try:
        if end.poll(max(0.0, until - time.monotonic())):
            return Outcome(*pickle.loads(end.recv_bytes()))
    except EOFError:
        return Outcome(error="ended without a word")
    return Outcome(error="did not end")


def _rank(
    end: Connection, function: Callable[..., Any], args: tuple[Any, ...], rank: int, world: int, store: str,
    environment: dict[str, str], timeout: float,
) -> None:  # fmt: skip
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    import torch.distributed as dist

    try:
        limit = timedelta(seconds=timeout)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=limit)
        value = function(*args)
        dist.destroy_process_group()
    except BaseException:
        end.send_bytes(pickle.dumps((None, traceback.format_exc())))
    else:
        end.send_bytes(pickle.dumps((value, None)))  # tensors by their bytes, not as shared memory
