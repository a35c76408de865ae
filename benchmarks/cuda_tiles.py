"""Speed of each tile of products on this GPU, against the largest: the table of gemm_run.hpp, which has guesses.

    python benchmarks/cuda_tiles.py [--seconds S] [--json FILE] [--emulated]

A square product fills every multiprocessor many times, in floats and in doubles; the speed of a tile is the time of
the largest over its own. --emulated runs small ones on the emulated kernels, where figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from cuda_kernels import milliseconds

import repdl
from repdl.registry.backend import get_backend

SOURCE = Path(__file__).parents[1] / "packages/repdl-cuda/native/gemm/gemm_run.hpp"
DTYPES = {"float": torch.float32, "double": torch.float64}
SIZES = {"float": 8192, "double": 4096}
SIZE_EMULATED = 96
AT_LEAST = 3
"""Calls of a tile; the fastest counts."""


@dataclass
class Row:
    dtype: str
    tile: int
    threads: int
    guess: float
    """Its speed in the source."""
    milliseconds: float = 0.0
    speed: float = 0.0


def tilings() -> list[Row]:
    """The tiles of the source, largest first."""
    rows = []
    for dtype, choices in re.findall(r"struct Tilings<(\w+)> \{\s+.*?= \{(.*?)\};", SOURCE.read_text()):
        for tile, threads, speed in re.findall(r"\{(\d+), (\d+), ([\d.]+)\}", choices):
            rows.append(Row(dtype, int(tile), int(threads), float(speed)))
    return rows


def on_host(call: Callable[[], object], repeat: int) -> float:
    began = time.perf_counter()
    for _ in range(repeat):
        call()
    return 1000 * (time.perf_counter() - began)


def measure(rows: list[Row], emulated: bool, seconds: float) -> None:
    """Fills in times and speeds; the turns of the tiles alternate."""
    timer = on_host if emulated else milliseconds
    for dtype, of in DTYPES.items():
        size = SIZE_EMULATED if emulated else SIZES[dtype]
        a, b = (torch.rand(size, size, dtype=of, device="cpu" if emulated else "cuda") for _ in range(2))
        mine = [row for row in rows if row.dtype == dtype]
        best = dict.fromkeys((row.tile for row in mine), float("inf"))
        began, turns = time.monotonic(), 0
        while turns < AT_LEAST or time.monotonic() - began < seconds:
            for tile in best:
                os.environ["REPDL_CUDA_TILE"] = str(tile)
                best[tile] = min(best[tile], timer(lambda: repdl.ops.mm(a, b), 1))
            turns += 1
        del os.environ["REPDL_CUDA_TILE"]
        for row in mine:
            row.milliseconds = best[row.tile]
            row.speed = best[mine[0].tile] / best[row.tile]


def table(rows: list[Row]) -> str:
    """What was measured, and the lines for the source."""
    lines = [f"{'dtype':8}{'tile':>6}{'ms':>12}{'speed':>8}{'in the source':>15}"]
    for row in rows:
        lines.append(f"{row.dtype:8}{row.tile:6}{row.milliseconds:12.3f}{row.speed:8.2f}{row.guess:15.2f}")
    for dtype in DTYPES:
        choices = ", ".join(f"{{{row.tile}, {row.threads}, {row.speed:.2f}}}" for row in rows if row.dtype == dtype)
        lines.append(f"Tilings<{dtype}>: choices[] = {{{choices}}};")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each dtype (default: 4)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also the rows")
    parser.add_argument("--emulated", action="store_true", help="small products on the emulated kernels, on the CPU")
    args = parser.parse_args()
    backend = "cuda-emulated" if args.emulated else "cuda"
    try:
        details = get_backend(backend).describe()
    except repdl.RepDLError as error:
        parser.error(str(error))
    rows = tilings()
    with repdl.use_backend(backend):  # a block: no call is replayed, each asks for its tile
        measure(rows, args.emulated, 0.0 if args.emulated else args.seconds)
    print(table(rows))
    if args.emulated:
        print("On the emulated kernels: these figures say nothing of a GPU.")
    if args.json is not None:
        about = {"emulated": args.emulated, "torch": torch.__version__, **details}
        args.json.write_text(json.dumps({"about": about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
