"""Write docs/programs.md and its picture: digests and times of examples/programs.py under several settings.

    python tools/digests.py                  # needs transformers, accelerate, lightning, matplotlib, some minutes
    python tools/digests.py trainer workers  # these programs alone; the other rows and all times stay
    python tools/digests.py --times          # the times on this kind of processor alone
    python tools/digests.py --plot           # the picture alone, of the table that is there

All ISA levels of repdl-cpu have to be installed.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch

import repdl
from repdl.cli import shown

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs/programs.md", ROOT / "docs/programs.svg"
SAYS = "## Digests of the trained model", "## Time of a step, enabled / torch alone"
ENABLED = [
    ("avx512", "avx512", 1),
    ("avx512", "default", 2),
    ("avx2", "avx512", 2),
    ("avx2", "avx2", 1),
    ("baseline", "avx2", 2),
    ("baseline", "default", 1),
]
"""REPDL_CPU_ISA, ATEN_CPU_CAPABILITY, threads."""
PLAIN = [("avx512", "avx512", 1), ("avx512", "avx512", 2), ("avx512", "avx2", 1), ("avx512", "default", 1)]


def run(isa: str, capability: str, threads: int, *options: str) -> list[str]:
    """The lines that the example prints."""
    environment = {**os.environ, "REPDL_CPU_ISA": isa, "ATEN_CPU_CAPABILITY": capability}
    command = [sys.executable, str(ROOT / "examples/programs.py"), "--threads", str(threads), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.splitlines()


def digests(settings: list[tuple[str, str, int]], *options: str) -> dict[str, list[str]]:
    """Of each program, the different ones, in the order in which they came."""
    found: dict[str, list[str]] = {}
    for setting in settings:
        for line in run(*setting, *options):
            name, digest = line.split()[0], line.split()[-1]
            if digest not in found.setdefault(name, []):
                found[name].append(digest)
    return found


def times(threads: int) -> dict[str, tuple[str, float]]:
    """Of each program, milliseconds of a step of torch's, and the ratio."""
    found = {}
    for line in run("avx512", "avx512", threads, "--time"):
        match = re.fullmatch(r"(\S+) +torch +([\d.]+) ms, enabled / torch ([\d.]+), .*", line)
        assert match, line
        found[match[1]] = match[2], float(match[3])
    return found


def mean(found: dict[str, tuple[str, float]]) -> float:
    return math.exp(sum(math.log(ratio) for _, ratio in found.values()) / len(found))


Rows = dict[str, tuple[str, str]]
"""Of each program: its digests under `enable()`, and how many torch alone has, and which."""


def table() -> Rows:
    """The digests on the page."""
    _, _, rest = PAGE.read_text().partition(SAYS[0])
    cells = (line.strip("| ").split(" | ") for line in rest.partition(SAYS[1])[0].splitlines() if line[:2] == "| ")
    return {name: (ours, theirs) for name, ours, theirs in [*cells][2:]}


def made(programs: list[str]) -> Rows:
    """The digests of these programs, or all."""
    ours, theirs = digests(ENABLED, *programs), digests(PLAIN, "--plain", *programs)
    return {name: (_short(ours[name]), f"{len(theirs[name])}: {_short(theirs[name])}") for name in ours}


def times_table() -> str:
    """The times on this kind of processor, measured."""
    one, two = times(1), times(2)
    rows = [
        "| program | torch, 1 thread | ratio | torch, 2 threads | ratio |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {n} | {one[n][0]} | {one[n][1]:.2f} | {two[n][0]} | {two[n][1]:.2f} |" for n in one),
        f"| geometric mean | | {mean(one):.2f} | | {mean(two):.2f} |",
    ]
    return "\n".join(rows)


def timed(measured: bool) -> str:
    """The section about times: the tables on the page, and one of this kind of processor if it was measured."""
    parts = PAGE.read_text().partition(SAYS[1])[2].split("\n### ")[1:]
    tables = {name: table.strip() for name, _, table in (part.partition("\n") for part in parts)}
    if measured:
        command = [sys.executable, str(ROOT / "benchmarks/processor.py")]
        name = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        tables[name] = times_table()
    says = (
        "Milliseconds of torch, and the median ratio of 7 turns in the steady state: 12 steps of a turn come before "
        "the 12 that are measured, and torch's turns and ours alternate. More than 1 is slower. The models are so "
        "small that the cost of calls decides. A table for each kind of processor, named as in "
        "[benchmark.md](benchmark.md)."
    )
    return "\n\n".join([SAYS[1], says, *(f"### {name}\n\n{table}" for name, table in tables.items())]) + "\n"


def plot(rows: Rows) -> None:
    """A dot for each digest that a program has, torch alone and enabled, readable on white and on black."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "repdl"  # the same file each time
    from matplotlib import pyplot

    grey = "#808080"
    sides = ((1, 0.0, "torch alone", "#d9822b", PLAIN), (0, 6.0, "repdl.enable()", "#3b82d0", ENABLED))
    figure, axes = pyplot.subplots(figsize=(6.4, 0.21 * len(rows) + 0.9))
    for column, start, title, colour, settings in sides:
        counts = [_marks(row[column]) for row in rows.values()]
        dots = [(start + n, place) for place, count in enumerate(counts) for n in range(count)]
        axes.scatter([x for x, _ in dots], [y for _, y in dots], s=36, color=colour)
        axes.text(start - 0.2, -1.9, title, color=colour, weight="bold")
        axes.text(start - 0.2, -1.0, f"{len(settings)} settings", color=grey, size=8)
    axes.set(xlim=(-0.6, 9.0), ylim=(len(rows) - 0.4, -2.4), xticks=[])
    axes.set_yticks(range(len(rows)), list(rows), color=grey, size=9)
    axes.tick_params(length=0)
    axes.set_xlabel("dots: the different digests of one training run, over processors and threads", color=grey, size=9)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE, transparent=True, metadata={"Date": None})


def _marks(cell: str) -> int:
    return cell.count("`") // 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--times", action="store_true", help="the times on this kind of processor alone")
    parser.add_argument("--plot", action="store_true", help="the picture alone")
    args = parser.parse_args()
    if args.plot:
        plot(table())
        return
    if args.times:
        PAGE.write_text(PAGE.read_text().partition(SAYS[1])[0] + timed(True))
        return
    rows = {**table(), **made(args.programs)} if args.programs else made([])
    lines = [
        "# Programs of other projects under `repdl.enable()`",
        "",
        "`examples/programs.py` trains small models of the `transformers` package and of torch, unmodified, for 10 "
        "steps: torch's own initial values, dropout, AdamW, clipping and schedule, from `torch.manual_seed(0)`. Of the "
        "last four the whole loop is another project's: the `Trainer` of transformers, a loop of accelerate with "
        "bfloat16 and gradients of two batches a step, the `Trainer` of lightning, and a `DataLoader` whose two worker "
        f"processes draw noise. Written by `tools/digests.py` on {date.today()}, torch "
        f"{torch.__version__.partition('+')[0]}, "
        + "".join(f"{name} {version(name)}, " for name in ("transformers", "accelerate", "lightning"))
        + f"repdl-cpu: {shown(repdl.backends()['cpu'].details)}.",
        "",
        SAYS[0],
        "",
        "Enabled: " + "; ".join(f"{isa}, torch as {cap}, {n} threads" for isa, cap, n in ENABLED) + ". "
        "Torch alone: " + "; ".join(f"as {cap}, {n} threads" for _, cap, n in PLAIN) + ". "
        f"The first 12 digits of those that differ. As a picture: [{PICTURE.name}]({PICTURE.name}).",
        "",
        "| program | enabled | torch alone |",
        "| --- | --- | --- |",
        *(f"| {name} | {ours} | {theirs} |" for name, (ours, theirs) in rows.items()),
        "",
        timed(not args.programs),
    ]
    PAGE.write_text("\n".join(lines))
    plot(rows)
    wrong = [name for name, (ours, _) in rows.items() if _marks(ours) > 1]
    if wrong:
        raise SystemExit(f"more than one digest: {', '.join(wrong)}")


def _short(found: list[str]) -> str:
    return ", ".join(f"`{digest[:12]}`" for digest in found)


if __name__ == "__main__":
    main()
