"""Time and memory of each kernel against torch's, in one process.

    python benchmarks/kernels.py [--threads 1] [--only mm,conv] [--json FILE]
    python benchmarks/kernels.py --memory

Calls take turns, and medians count. Prints work, torch's and our time in milliseconds, the
ratio torch / ours (more than 1 is faster than torch), the bound that is aimed at, and whether
it is reached. Groups of shapes end in a line with the geometric mean of their ratios. With one
thread the clock is the thread's processor time, which other processes disturb less; with several
it is the wall clock, and every turn begins with 40 ms of calls that do not count.

--memory prints instead what the first call adds to the process at its peak, in MiB; ours is to
stay below 1.2 times torch's plus 16 MiB. It needs Linux and glibc.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from processor import this_processor
from table import Row, Timer, arguments, choose, report, time_rows
from work import GROUPS, Call, Work

import repdl


def timer(threads: int) -> Timer:
    def one_thread(call: Call, repeat: int) -> float:
        begin = time.thread_time()
        for _ in range(repeat):
            call()
        return (time.thread_time() - begin) * 1e3

    def several_threads(call: Call, repeat: int) -> float:
        def calls(seconds: float) -> float:
            begin = end = time.perf_counter()
            count = 0
            while end < begin + seconds:
                call()
                count += 1
                end = time.perf_counter()
            return (end - begin) * 1e3 / count

        calls(0.04)  # OpenMP's threads keep their processors busy for 10 ms after torch's last call
        return calls(0.005) * repeat

    return one_thread if threads == 1 else several_threads


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


def main() -> None:
    parser = arguments(__doc__, GROUPS)
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--memory", action="store_true", help="peak memory instead of time")
    args = parser.parse_args()
    works = choose(parser, args, GROUPS)
    torch.set_num_threads(args.threads)
    repdl.set_num_threads(args.threads)
    torch.manual_seed(0)

    produced = memory_rows(works) if args.memory else time_rows(works, args.seconds, timer(args.threads), 1.0)
    about: Row = {"processor": this_processor(), "torch": torch.__version__, "threads": args.threads}
    report(produced, args.json, {**about, **repdl.backends()["cpu"].details}, "MiB" if args.memory else "ms")


if __name__ == "__main__":
    main()
