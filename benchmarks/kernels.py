"""Time and memory of each kernel against torch's, in one process.

    python benchmarks/kernels.py [--threads 1] [--only mm,conv] [--json FILE] [--plot FILE]
    python benchmarks/kernels.py --memory

Calls take turns, and medians count. Prints work, torch's and our time in milliseconds, the
ratio torch / ours (more than 1 is faster than torch), the bound that is aimed at, and whether
it is reached. Groups of shapes end in a line with the geometric mean of their ratios. With one
thread the clock is the thread's processor time, which other processes disturb less.

--memory prints instead what the first call adds to the process at its peak, in MiB; ours is to
stay below 1.2 times torch's plus 16 MiB. It needs Linux and glibc.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from work import GROUPS, Call, Work

import repdl

Row = dict[str, Any]


def median_times(work: Work, seconds: float, clock: Callable[[], float]) -> tuple[float, float]:
    """Milliseconds of the best of torch's ways and of ours; calls take turns."""
    calls = (*work.torchs, work.ours)
    for call in calls:
        call()
    start = clock()
    for call in calls:
        call()
    once = max(clock() - start, 1e-7)
    rounds = max(5, min(400, int(seconds / once)))
    repeat = max(1, int(2e-4 / (once / len(calls))))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(max(5, rounds // repeat)):
        for call, measured in zip(calls, times):
            begin = clock()
            for _ in range(repeat):
                call()
            measured.append((clock() - begin) / repeat * 1e3)
    medians = [statistics.median(t) for t in times]
    return min(medians[:-1]), medians[-1]


def time_rows(works: Iterator[Work], seconds: float, threads: int) -> Iterator[Row]:
    """A row for each piece of work, then one for each group."""
    means: dict[str, list[float]] = {}
    for work in works:
        theirs, ours = median_times(work, seconds, time.thread_time if threads == 1 else time.perf_counter)
        ratio, bound = theirs / ours, work.bound
        if work.excess:
            bound = theirs / (theirs + work.excess * 1e-3)
        yield {"work": work.name, "torch_ms": theirs, "ours_ms": ours, "ratio": ratio, "bound": bound}
        if work.group:
            means.setdefault(work.group, []).append(ratio)
    for group, ratios in means.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield {"work": f"{group}, geometric mean of {len(ratios)}", "ratio": mean, "bound": 1.0}


def peak_memory(call: Call) -> float:
    """MiB that the first call adds at its peak, measured in a child process."""

    def status(key: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(key))

    read, write = os.pipe()
    if (child := os.fork()) == 0:
        ctypes.CDLL(None).malloc_trim(0)  # what earlier calls freed would not count again
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        before = status("VmRSS:")
        call()
        os.write(write, str(status("VmHWM:") - before).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return int(text) / 1024


def memory_rows(works: Iterator[Work]) -> Iterator[Row]:
    """A row for each piece of work."""
    for work in works:
        theirs, ours = min(peak_memory(call) for call in work.torchs), peak_memory(work.ours)
        bound = theirs * 1.2 + 16
        yield {"work": work.name, "torch_mib": theirs, "ours_mib": ours, "ratio": bound / max(ours, 1e-3), "bound": 1.0}


def verdict(row: Row) -> str:
    return "" if row["bound"] == 0 else "pass" if row["ratio"] >= row["bound"] else "below"


def plot(rows: list[Row], path: Path) -> None:
    """A bar chart of the ratios."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 0.22 * len(rows) + 1))
    colours = ["tab:orange" if verdict(row) == "below" else "tab:blue" for row in rows]
    axes.barh([row["work"] for row in rows], [row["ratio"] for row in rows], color=colours)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks([0.2, 0.5, 1, 2, 5], labels=["0.2", "0.5", "1", "2", "5"])
    axes.invert_yaxis()
    axes.set_xlabel("torch's time / RepDL's time: right of 1 is faster (orange: below its bound)")
    axes.margins(y=0.005)
    figure.tight_layout()
    figure.savefig(path, dpi=70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for a line (default: 1)")
    parser.add_argument("--only", default=",".join(GROUPS), help=f"of {','.join(GROUPS)}")
    parser.add_argument("--match", default="", help="only lines with this text")
    parser.add_argument("--memory", action="store_true", help="peak memory instead of time")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(GROUPS):
        parser.error(f"unknown {sorted(unknown)}, expected some of {','.join(GROUPS)}")
    torch.set_num_threads(args.threads)
    repdl.set_num_threads(args.threads)
    torch.manual_seed(0)

    works = (work for key in args.only.split(",") for work in GROUPS[key]() if args.match in work.name)
    produced = memory_rows(works) if args.memory else time_rows(works, args.seconds, args.threads)
    unit = "MiB" if args.memory else "ms"
    print(f"{'work':45} {'torch ' + unit:>10} {'ours ' + unit:>10} {'ratio':>6} {'bound':>6}")
    rows = []
    for row in produced:
        numbers = [row.get(f"{who}_{unit.lower()}") for who in ("torch", "ours")]
        shown = " ".join(f"{'' if n is None else format(n, '.3f'):>10}" for n in numbers)
        print(f"{row['work']:45} {shown} {row['ratio']:6.2f} {row['bound']:6.2f} {verdict(row)}", flush=True)
        rows.append(row)
    if args.json:
        about = {"torch": torch.__version__, "threads": args.threads, **repdl.backends()["cpu"].details}
        args.json.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
