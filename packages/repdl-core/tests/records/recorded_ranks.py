"""Training on two ranks, recorded three times: twice the same, and once with another batch on rank 1."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from repdl.records import record

STEPS, AT = 3, 1


def train(change: bool) -> None:
    """Steps of DistributedDataParallel; the batch of rank 1 in step `AT` is another one if it is changed."""
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        torch.manual_seed(10 * step + dist.get_rank())
        batch = torch.randn(4, 8)
        if step == AT and dist.get_rank() == 1:
            batch[0, 0] = 2.0 if change else 1.0
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def recorded(folder: str) -> None:
    """The files a, b and other of this rank."""
    os.environ |= {"RANK": str(dist.get_rank()), "WORLD_SIZE": str(dist.get_world_size())}
    for name in ("a", "b", "other"):
        with record(Path(folder) / f"{name}.repdl", program=["train.py"]):
            train(name == "other")
