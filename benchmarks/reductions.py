"""Reductions over ranks and steps of DistributedDataParallel, by RepDL and by torch alone, on this machine.

    python benchmarks/reductions.py                             # 2, 4 and 8 ranks, some minutes
    python benchmarks/reductions.py --ranks 2 --elements 1000000

Ranks are processes of one thread, which speak by gloo. Both sides take turns in the same processes; a time is that of
the slowest rank. In the last table all ranks share one processor: what they take together, over what one of them takes
alone, times their number.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import repdl

SIDES = ("torch", "repdl")
WARM = 4


class GPT(nn.Module):
    """Four blocks of 128 channels, for 64 tokens of 256 kinds."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True, norm_first=True)
        self.tokens, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
        self.blocks, self.head = nn.TransformerEncoder(block, 4, enable_nested_tensor=False), nn.Linear(128, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        logits: torch.Tensor = self.head(self.blocks(x, mask, is_causal=True))
        return logits


def slowest(call: Callable[[], None], rounds: int) -> float:
    """Milliseconds a call, the median over rounds of those of the slowest rank; the first ones record and make
    buffers."""
    times = []
    for number in range(-WARM, rounds):
        dist.barrier()
        begin = time.perf_counter()
        call()
        spent = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
        dist.all_reduce(spent, dist.ReduceOp.MAX)
        times += [float(spent) * 1e3] if number >= 0 else []
    return statistics.median(times)


def compared(name: str, calls: dict[str, Callable[[], None]], rounds: int) -> list[str]:
    """A line of the table: the ranks, milliseconds of each side, the median ratio of ours to torch's over turns."""
    found: dict[str, list[float]] = {side: [] for side in calls}
    for _ in range(5):
        for side, call in calls.items():
            with on_side(side):
                found[side].append(slowest(call, rounds))
    ratio = statistics.median(ours / theirs for ours, theirs in zip(found["repdl"], found["torch"]))
    times = [f"{statistics.median(found[side]):.1f}" for side in SIDES]
    return [name, str(dist.get_world_size()), *times, f"{ratio:.2f}"]


@contextlib.contextmanager
def on_side(side: str) -> Iterator[None]:
    with repdl.enabled() if side == "repdl" else contextlib.nullcontext():
        yield


def reductions(elements: int) -> list[str]:
    """A line of the table for one size."""
    x = torch.zeros(elements)  # sums of them stay what they are
    return compared(f"{elements:,}", {side: lambda: dist.all_reduce(x) for side in SIDES}, 3)


def step() -> Callable[[], None]:
    torch.manual_seed(0)
    model = DistributedDataParallel(GPT())
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(256, (4, 65))

    def call() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

    return call


def steps() -> list[str]:
    """A line of the table for a step of DistributedDataParallel."""
    calls = {}
    for side in SIDES:
        with on_side(side):
            calls[side] = step()
    return compared("a step of DistributedDataParallel", calls, 12)


def steps_of_repdl() -> list[str]:
    """Milliseconds of a step by RepDL."""
    with on_side("repdl"):
        return [str(slowest(step(), 15))]


WORK: dict[str, Callable[..., list[str]]] = {"reductions": reductions, "steps": steps, "steps_of_repdl": steps_of_repdl}


def _rank(rank: int, world: int, folder: str, work: str, args: tuple[Any, ...], shared: bool) -> None:
    torch.set_num_threads(1)
    repdl.set_num_threads(1)
    if shared:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    line = WORK[work](*args)
    if rank == 0:
        Path(folder, "line").write_text("|".join(line))
    dist.destroy_process_group()


def on_ranks(world: int, work: str, *args: Any, shared: bool = False) -> list[str]:
    """What rank 0 returns."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank, (world, folder, work, args, shared), world)  # type: ignore[attr-defined,no-untyped-call]
        return Path(folder, "line").read_text().split("|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], metavar="W")
    parser.add_argument("--elements", type=int, nargs="+", default=[1_000_000, 25_000_000], metavar="N")
    args = parser.parse_args()
    print(f"{os.cpu_count()} processors, torch {torch.__version__}\n")
    print(
        "| all_reduce of float32 | ranks | torch (ms) | repdl (ms) | repdl / torch |\n| --- | --- | --- | --- | --- |"
    )
    for elements in args.elements:
        for world in args.ranks:
            print(f"| {' | '.join(on_ranks(world, 'reductions', elements))} |", flush=True)
    print(f"| {' | '.join(on_ranks(min(args.ranks), 'steps'))} |\n", flush=True)
    print("| ranks on one processor | a step (ms) | over a step of one, times their number |\n| --- | --- | --- |")
    one = float(on_ranks(1, "steps_of_repdl", shared=True)[0])
    for world in args.ranks:
        together = float(on_ranks(world, "steps_of_repdl", shared=True)[0])
        print(f"| {world} | {together:.1f} | {together / (one * world):.2f} |", flush=True)


if __name__ == "__main__":
    main()
