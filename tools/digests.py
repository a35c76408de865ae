"""Write docs/programs.md: digests and times of examples/programs.py under several settings.

python tools/digests.py        # needs transformers, all ISA levels of repdl-cpu, and some minutes
"""

from __future__ import annotations

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
PAGE = ROOT / "docs/programs.md"
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
        match = re.fullmatch(r"(\S+) +torch +([\d.]+) ms, enabled / torch ([\d.]+)", line)
        assert match, line
        found[match[1]] = match[2], float(match[3])
    return found


def mean(found: dict[str, tuple[str, float]]) -> float:
    return math.exp(sum(math.log(ratio) for _, ratio in found.values()) / len(found))


def main() -> None:
    ours, theirs = digests(ENABLED), digests(PLAIN, "--plain")
    one, two = times(1), times(2)
    lines = [
        "# Programs of other projects under `repdl.enable()`",
        "",
        "`examples/programs.py` trains small models of the `transformers` package and of torch, unmodified, for 10 "
        "steps: torch's own initial values, dropout, AdamW, clipping and schedule, from `torch.manual_seed(0)`. "
        f"Written by `tools/digests.py` on {date.today()}, torch {torch.__version__.partition('+')[0]}, transformers "
        f"{version('transformers')}, repdl-cpu: {shown(repdl.backends()['cpu'].details)}.",
        "",
        "## Digests of the trained model",
        "",
        "Enabled: " + "; ".join(f"{isa}, torch as {cap}, {n} threads" for isa, cap, n in ENABLED) + ". "
        "Torch alone: " + "; ".join(f"as {cap}, {n} threads" for _, cap, n in PLAIN) + ". "
        "The first 12 digits of those that differ.",
        "",
        "| program | enabled | torch alone |",
        "| --- | --- | --- |",
        *(f"| {n} | {_short(ours[n])} | {len(theirs[n])}: {_short(theirs[n])} |" for n in ours),
        "",
        "## Time of a step, enabled / torch alone",
        "",
        "Milliseconds of torch, and the median ratio of 7 turns; more than 1 is slower. The models are so small that "
        "the cost of calls decides.",
        "",
        "| program | torch, 1 thread | ratio | torch, 2 threads | ratio |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {n} | {one[n][0]} | {one[n][1]:.2f} | {two[n][0]} | {two[n][1]:.2f} |" for n in one),
        f"| geometric mean | | {mean(one):.2f} | | {mean(two):.2f} |",
    ]
    PAGE.write_text("\n".join(lines) + "\n")
    wrong = [name for name, found in ours.items() if len(found) > 1]
    if wrong:
        raise SystemExit(f"more than one digest: {', '.join(wrong)}")


def _short(found: list[str]) -> str:
    return ", ".join(f"`{digest[:12]}`" for digest in found)


if __name__ == "__main__":
    main()
