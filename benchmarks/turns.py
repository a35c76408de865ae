"""Two sides that take turns in one process, torch and repdl: options, the clock, the line that is printed."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Mapping

import torch

import repdl

Call = Callable[[], None]


def arguments(
    description: str | None, names: Iterable[str], own: Iterable[argparse.ArgumentParser] = ()
) -> argparse.Namespace:
    """The options, those of the benchmark's own parsers too, of which threads are set, and the state that every
    comparison begins in."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[*own]
    )
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--seconds", type=float, default=0.5, metavar="S", help="of a turn")
    parser.add_argument("--only", default=",".join(names), help="names, with commas between")
    parser.add_argument("--device", default="cpu", help="of the models, where the benchmark has them (default: cpu)")
    args = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(args.threads)
    repdl.set_num_threads(args.threads)
    torch.manual_seed(0)
    backend = torch.device(args.device).type
    print(f"{backend} backend: {dict(repdl.backends()[backend].details)}")
    return args


def turn(call: Call, seconds: float) -> float:
    """Milliseconds a call, over so many seconds after 0.1 that do not count; on a GPU its work is waited for."""
    if torch.cuda.is_available():
        queued = call

        def call() -> None:
            queued()
            torch.cuda.synchronize()

    begin = time.perf_counter()
    while time.perf_counter() < begin + 0.1:
        call()
    times, begin = [], time.perf_counter()
    while time.perf_counter() < begin + seconds:
        before = time.perf_counter()
        call()
        times.append((time.perf_counter() - before) * 1e3)
    return statistics.median(times)


def compare(
    name: str, calls: Mapping[str, Call], args: argparse.Namespace, before: Callable[[str], None] = lambda side: None
) -> None:
    """Print the medians of both sides and of the rounds' ratios; `before` is called with the side of each turn."""
    times: dict[str, list[float]] = {side: [] for side in calls}
    for number in range(args.rounds):
        for side in sorted(calls, reverse=bool(number % 2)):
            before(side)
            times[side].append(turn(calls[side], args.seconds))
    ratio = statistics.median(ours / theirs for ours, theirs in zip(times["repdl"], times["torch"]))
    torchs, ours = (statistics.median(times[side]) for side in ("torch", "repdl"))
    print(f"{name}, {args.threads} threads: torch {torchs:.2f} ms, repdl {ours:.2f} ms, repdl / torch {ratio:.3f}")
