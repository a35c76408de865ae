"""What the benchmarks share: which work is chosen, medians of calls that take turns, the table, its JSON."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from work import Call, Work

Row = dict[str, Any]
Groups = Mapping[str, Callable[[], Iterator[Work]]]
Timer = Callable[[Call, int], float]
"""Milliseconds that a number of calls take together."""


def arguments(description: str | None, groups: Groups) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for a line (default: 1)")
    parser.add_argument("--only", default=",".join(groups), help=f"of {','.join(groups)}")
    parser.add_argument("--match", default="", help="only lines with this text")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def choose(parser: argparse.ArgumentParser, args: argparse.Namespace, groups: Groups) -> Iterator[Work]:
    """The work that --only and --match name."""
    if unknown := set(args.only.split(",")) - set(groups):
        parser.error(f"unknown {sorted(unknown)}, expected some of {','.join(groups)}")
    return (work for key in args.only.split(",") for work in groups[key]() if args.match in work.name)


def on(device: str, works: Iterator[Work]) -> Iterator[Work]:
    """The same, with the tensors on a device."""
    while True:
        with torch.device(device):  # not while the work runs: it slows every call of torch
            work = next(works, None)
        if work is None:
            return
        yield work


def median_times(work: Work, seconds: float, timer: Timer) -> tuple[float, float]:
    """Milliseconds of the best of torch's ways and of ours; calls take turns."""
    calls = (*work.torchs, work.ours)
    for call in calls:
        call()
    begin = time.perf_counter()
    once = max(sum(timer(call, 1) for call in calls), 1e-4)
    turn = max(once, (time.perf_counter() - begin) * 1e3)  # with what the timer does besides
    rounds = max(5, min(400, int(seconds * 1e3 / turn)))
    repeat = max(1, int(0.2 / (once / len(calls))))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(max(5, rounds // repeat)):
        for call, measured in zip(calls, times):
            measured.append(timer(call, repeat) / repeat)
    medians = [statistics.median(t) for t in times]
    return min(medians[:-1]), medians[-1]


def time_rows(works: Iterator[Work], seconds: float, timer: Timer, mean_bound: float) -> Iterator[Row]:
    """A row for each piece of work, then one for each group."""
    means: dict[str, list[float]] = {}
    for work in works:
        theirs, ours = median_times(work, seconds, timer)
        ratio, bound = theirs / ours, work.bound
        if work.excess:
            bound = theirs / (theirs + work.excess * 1e-3)
        yield {"work": work.name, "torch_ms": theirs, "ours_ms": ours, "ratio": ratio, "bound": bound}
        if work.group:
            means.setdefault(work.group, []).append(ratio)
    for group, ratios in means.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield {"work": f"{group}, geometric mean of {len(ratios)}", "ratio": mean, "bound": mean_bound}


def verdict(row: Row) -> str:
    return "" if row["bound"] == 0 else "pass" if row["ratio"] >= row["bound"] else "below"


def report(produced: Iterable[Row], path: Path | None, about: Mapping[str, Any], unit: str = "ms") -> list[Row]:
    """Print each row when it is there, and write it to a file with those before it and what they are about."""
    print(f"{'work':45} {'torch ' + unit:>10} {'ours ' + unit:>10} {'ratio':>6} {'bound':>6}")
    rows = []
    for row in produced:
        numbers = [row.get(f"{who}_{unit.lower()}") for who in ("torch", "ours")]
        shown = " ".join(f"{'' if n is None else format(n, '.3f'):>10}" for n in numbers)
        print(f"{row['work']:45} {shown} {row['ratio']:6.2f} {row['bound']:6.2f} {verdict(row)}", flush=True)
        rows.append(row)
        if path:
            path.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    return rows
