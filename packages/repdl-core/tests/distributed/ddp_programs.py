"""Programs of DistributedDataParallel, as people write them."""

from __future__ import annotations

import contextlib
import runpy
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import repdl
from repdl.distributed import algorithms


@dataclass(frozen=True)
class Program:
    """What one run is made of: what of it may not matter, and what does."""

    bucket_cap_mb: float = 25.0
    gradient_as_bucket_view: bool = False
    threads: int = 1
    algorithm: str | None = None
    find_unused_parameters: bool = False
    static_graph: bool = False
    accumulate: int = 1
    batch_norm: bool = False
    unused: bool = False
    hook: str | None = None


TRANSPORTS = (
    Program(),
    Program(bucket_cap_mb=0.01),
    Program(bucket_cap_mb=0.1, gradient_as_bucket_view=True),
    Program(algorithm="gathered"),
    Program(algorithm="sharded", bucket_cap_mb=0.05),
    Program(algorithm="halved"),
    Program(threads=2, bucket_cap_mb=0.05),
    Program(find_unused_parameters=True),
    Program(static_graph=True),
)
"""Runs of one program that may differ in nothing."""
PROGRAMS = (
    Program(accumulate=3),
    Program(batch_norm=True),
    Program(unused=True, find_unused_parameters=True),
    Program(hook="fp16_compress_hook"),
    Program(hook="allreduce_hook"),  # divides by the number of ranks, where DDP multiplies by its reciprocal
)
"""Programs of other results, each of which runs with several buckets."""


class _Net(nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program, self.calls = program, 0
        self.first, self.last, self.other = nn.Linear(12, 70), nn.Linear(70, 5), nn.Linear(70, 5)
        self.middle = nn.Sequential(nn.Linear(70, 70), nn.GELU(), nn.Dropout(0.1))
        self.norm = nn.BatchNorm1d(70) if program.batch_norm else nn.LayerNorm(70)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = self.middle(self.norm(F.relu(self.first(x))))
        takes_other = self.program.unused and self.calls % 2 == 0
        return (self.other if takes_other else self.last)(x)


def train(program: Program) -> str:
    """The digest of parameters after some steps, which is that of every rank."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(program.threads)
    with _by(program.algorithm):
        return _train(program)


@contextlib.contextmanager
def _by(algorithm: str | None) -> Any:
    choose = algorithms.choose
    if algorithm is not None:
        wanted = getattr(algorithms, algorithm)

        def chosen(transport: Any, flat: torch.Tensor) -> algorithms.Algorithm:
            halves = wanted is algorithms.halved
            return choose(transport, flat) if halves and not algorithms.can_halve(transport, flat) else wanted

        algorithms.choose = chosen
    try:
        yield
    finally:
        algorithms.choose = choose


def _train(program: Program) -> str:
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = _Net(program)
    if not program.unused:
        net.other.requires_grad_(False)  # else DDP has to look for parameters that have no gradient
    model = DistributedDataParallel(
        net,
        bucket_cap_mb=program.bucket_cap_mb,
        gradient_as_bucket_view=program.gradient_as_bucket_view,
        find_unused_parameters=program.find_unused_parameters,
        static_graph=program.static_graph,
    )
    if program.hook is not None:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        model.register_comm_hook(None, getattr(default_hooks, program.hook))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    data = TensorDataset(torch.randn(240, 12), torch.randint(0, 5, (240,)))
    torch.manual_seed(100 + rank)
    batches = iter(DataLoader(data, 8, sampler=DistributedSampler(data, world, rank, seed=5), drop_last=True))
    for _ in range(3):
        optimizer.zero_grad()
        for i in range(program.accumulate):
            x, y = next(batches)
            with model.no_sync() if i < program.accumulate - 1 else contextlib.nullcontext():
                (F.cross_entropy(model(x), y) / program.accumulate).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    # Statistics of a rank's own batches are its own.
    found = repdl.digest(dict(net.named_parameters()))
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, found)
    assert everyone == [found] * world, everyone
    return found


def transports() -> list[str]:
    """The digests of all runs that may not differ."""
    repdl.enable()
    return [train(program) for program in TRANSPORTS]


def programs() -> list[tuple[str, str]]:
    """The digests of each program with large and with small buckets."""
    repdl.enable()
    return [(train(program), train(replace(program, bucket_cap_mb=0.02))) for program in PROGRAMS]


def some_transports() -> list[str]:
    repdl.enable()
    return [train(program) for program in TRANSPORTS[:2]]


def torch_alone() -> list[str]:
    """The digests of the same runs without RepDL."""
    settings = [Program(), Program(bucket_cap_mb=0.01), Program(bucket_cap_mb=0.1), Program(threads=2)]
    return [train(program) for program in settings]


def uneven(*buckets: float) -> list[str]:
    """Ranks with another number of batches each: those that have ended join the others' reductions."""
    repdl.enable()
    found = []
    for bucket_cap_mb in buckets:
        torch.manual_seed(0)
        model = DistributedDataParallel(_Net(Program(unused=True)).middle, bucket_cap_mb=bucket_cap_mb)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(100 + dist.get_rank())
        with model.join():
            for _ in range(1 + 2 * dist.get_rank()):
                optimizer.zero_grad()
                model(torch.randn(8, 70)).square().mean().backward()
                optimizer.step()
        found.append(repdl.digest(model.module))
    return found


def power_sgd() -> str:
    """A hook that reduces by itself."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    torch.manual_seed(0)
    repdl.enable()
    model = DistributedDataParallel(nn.Linear(40, 30))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    torch.manual_seed(dist.get_rank())
    for _ in range(4):
        model.zero_grad()
        model(torch.randn(6, 40)).square().sum().backward()
    return repdl.digest({"grad": model.module.weight.grad})


def trained(program: str, *arguments: str) -> str:
    """The digest of a program, by `enable()`, on a rank that no launcher has begun."""
    repdl.enable()
    sys.argv = [program, *arguments]
    return str(runpy.run_path(program)["digest"])
