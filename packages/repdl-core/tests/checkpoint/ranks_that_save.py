"""What the ranks of `test_checkpoint_ranks.py` do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import repdl
from repdl import checkpoint
from repdl.checkpoint import Batches
from repdl.errors import CheckpointError

LAST = 7
"""Steps: an epoch of 4, and 3."""


def made(seed: int) -> dict[str, Any]:
    """DistributedDataParallel with dropout from generators of each rank."""
    torch.manual_seed(seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)))
    torch.manual_seed(seed + 1 + dist.get_rank())
    data = repdl.random.randn(16, 4, generator=repdl.random.Generator(5))
    order: Any = DistributedSampler(data)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return {"model": model, "optimizer": optimizer, "sampler": Batches(DataLoader(data, 2, sampler=order))}


def sharded(seed: int) -> dict[str, Any]:
    """The same by FSDP2, whose parameters and moments are DTensors; a size that two ranks do not share evenly."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 7), nn.Dropout(0.5), nn.Linear(7, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    torch.manual_seed(seed + 1 + dist.get_rank())
    data = repdl.random.randn(16, 4, generator=repdl.random.Generator(5))
    order: Any = DistributedSampler(data)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return {"model": model, "optimizer": optimizer, "sampler": Batches(DataLoader(data, 2, sampler=order))}


MADE = {"ddp": made, "fsdp2": sharded}


def train(run: dict[str, Any], step: int, last: int, folder: Path, keep: int | None = None) -> str:
    digest = ""
    while step < last:
        for batch in run["sampler"]:
            run["optimizer"].zero_grad()
            run["model"](batch).square().mean().backward()
            run["optimizer"].step()
            step += 1
            digest = checkpoint.save(folder / f"step-{step}", **run, extra={"step": step}, keep=keep)
            if step == last:
                break
    return digest


def stop_and_go_on(folder: Path, stop: int, left_out: str = "", kind: str = "ddp") -> tuple[str, str]:
    """The digest of a run, and of one that went on from `stop`."""
    with repdl.enabled():
        (folder / "whole").mkdir(exist_ok=True)
        (folder / "again").mkdir(exist_ok=True)
        dist.barrier()
        whole = train(MADE[kind](0), 0, LAST, folder / "whole")
        run = MADE[kind](9)
        objects = {name: value for name, value in run.items() if name != left_out}
        state = checkpoint.load(folder / "whole" / f"step-{stop}", **objects, strict=not left_out)
        return whole, train(run, state.extra["step"], LAST, folder / "again")


def keep_two(folder: Path) -> tuple[str, str]:
    """The names that are left, and the latest."""
    with repdl.enabled():
        train(made(0), 0, 4, folder, keep=2)
        return ",".join(sorted(path.name for path in folder.iterdir())), str(checkpoint.latest(folder))


def state_of(run: dict[str, Any]) -> list[str]:
    return [repdl.digest(run["model"]), repdl.digest(run["optimizer"]), repdl.digest(torch.get_rng_state())]


def load_damaged(folder: Path) -> tuple[str, bool]:
    """The file of rank 1 is damaged: what each rank says, and whether all is as it was."""
    with repdl.enabled():
        run = made(0)
        train(run, 0, 2, folder)
        (mine,) = folder.glob(f".step-1.rank-{dist.get_rank()}.*")
        if dist.get_rank() == 1:
            data = mine.read_bytes()
            mine.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        before = state_of(run)
        dist.barrier()
        try:
            checkpoint.load(folder / "step-1", **run)
        except CheckpointError as error:
            return str(error), state_of(run) == before
        return "loaded", False


def fail_on_rank_1(folder: Path) -> tuple[str, bool]:
    """Rank 1 has a state that can't be saved: what each rank says, and whether the folder is as it was."""
    with repdl.enabled():
        run = made(0)
        train(run, 0, 1, folder)
        before = sorted(path.name for path in folder.iterdir())
        dist.barrier()
        try:
            checkpoint.save(folder / "step-1", **run, extra=print if dist.get_rank() else 1)
        except CheckpointError as error:
            dist.barrier()
            return str(error), sorted(path.name for path in folder.iterdir()) == before
        return "saved", False


def load_with(folder: Path) -> str:
    """What a world of this size says of a checkpoint that two ranks have saved."""
    try:
        checkpoint.load(folder / "whole" / "step-3")
    except CheckpointError as error:
        return str(error)
    return "loaded"


def save_in_the_background(folder: Path) -> tuple[str, str, bool, bool]:
    """The digests of one state by `save` and by `async_save` while training goes on, whether the file is there only
    after `wait`, and whether it loads."""
    with repdl.enabled():
        run = made(0)
        train(run, 0, 2, folder)
        saved = checkpoint.save(folder / "b", **run)
        state = state_of(run)
        handle = checkpoint.async_save(folder / "c", **run)
        run["model"](torch.ones(2, 4)).sum().backward()
        run["optimizer"].step()
        there = (folder / "c").exists()
        digest = handle.wait()
        changed = state_of(run) != state
        checkpoint.load(folder / "c", **run)
        return saved, digest, not there and handle.wait() == digest, changed and state_of(run) == state


def fail_in_the_background(folder: Path) -> tuple[str, str, str]:
    """Rank 1 can't write: what the next `save` says on each rank, and that the one after is there."""
    handle = checkpoint.async_save(folder / "a", extra=torch.ones(3))
    handle.wait()
    part = checkpoint.saving.format.write
    if dist.get_rank() == 1:
        checkpoint.saving.format.write = lambda *arguments: 1 / 0
    checkpoint.async_save(folder / "b", extra=torch.ones(3))._thread.join()
    checkpoint.saving.format.write = part
    said = ""
    try:
        checkpoint.save(folder / "c", extra=1)
    except (CheckpointError, ZeroDivisionError) as error:
        said = str(error)
    checkpoint.save(folder / "c", extra=1)
    return said, str(checkpoint.latest(folder)), ",".join(sorted(path.name for path in folder.iterdir()))


def forget_to_wait(folder: Path) -> str:
    """What is said at the end of a program."""
    handle = checkpoint.async_save(folder / "a", extra=torch.ones(3))
    try:
        handle._end()
    except CheckpointError as error:
        handle.wait()
        return str(error)
    return ""
