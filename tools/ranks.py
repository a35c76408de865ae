"""Write docs/ranks.md: digests of examples/several_ranks.py on numbers of ranks and of processes.

python tools/ranks.py                          # needs transformers, accelerate, lightning, an hour of two cores
python tools/ranks.py --ranks 2 3 --of gpt     # these cells alone; the others stay
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch

import repdl
from repdl.cli import shown

ROOT = Path(__file__).parents[1]
PAGE, PROGRAM = ROOT / "docs/ranks.md", ROOT / "examples/several_ranks.py"
RANKS = (1, 2, 3, 4, 6, 8)
OF_TORCH = ("lenet", "gpt", "zero", "fsdp2", "tensor-parallel")
"""They share a process; the others begin torch.distributed themselves."""
OF_OTHERS = ("accelerate", "trainer", "lightning")
ALONE = "torch alone, 3 ranks"


@dataclass(frozen=True)
class Way:
    """How ranks are begun: as processes of torchrun, on fewer of its processes, or without it."""

    says: str
    processes: int | None = None
    is_real: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, ranks: int) -> list[str]:
        processes = ranks if self.is_real else self.processes
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes else []
        return [sys.executable, *torchrun, "-m", "repdl", "run", *([] if self.is_real else [f"--ranks={ranks}"])]


ONE, TWO = {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"}
WAYS = (
    Way("a process of torchrun for each rank", is_real=True, environment=ONE),
    Way(
        "one process, the baseline ISA of RepDL and of torch",
        environment={**ONE, "REPDL_CPU_ISA": "baseline", "ATEN_CPU_CAPABILITY": "default"},
    ),
    Way("two processes, two threads a rank", processes=2, environment=TWO),
    Way("three processes", processes=3, environment=ONE),
)
PLAIN = ({**ONE, "ATEN_CPU_CAPABILITY": "avx2"}, {**TWO, "ATEN_CPU_CAPABILITY": "default"})


def digests(command: list[str], environment: dict[str, str], programs: tuple[str, ...]) -> dict[str, str]:
    """What a run prints, by program."""
    command = [*command, str(PROGRAM), *programs]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=1800
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    found = dict(re.findall(r"^digest (\S+) ([0-9a-f]{64})$", done.stdout, re.MULTILINE))
    if found.keys() != set(programs):
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return found


def cells(runs: list[dict[str, str]]) -> dict[str, str]:
    """Of each program, its different digests."""
    different = {name: dict.fromkeys(run[name] for run in runs) for name in runs[0]}
    return {name: ", ".join(f"`{digest[:12]}`" for digest in found) for name, found in different.items()}


def of_ranks(ranks: int, programs: tuple[str, ...]) -> dict[str, str]:
    ways = [way for way in WAYS if (way.processes or 1) <= ranks]
    return cells([digests(way.command(ranks), way.environment, programs) for way in ways])


def of_torch_alone(programs: tuple[str, ...]) -> dict[str, str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    return cells([digests(command, environment, programs) for environment in PLAIN])


Table = dict[str, dict[str, str]]
"""Program, column, cell."""


def table() -> Table:
    """That of the page."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")] if PAGE.exists() else []
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0][1:], row[1:])) for row in rows[2:]}


def write(found: Table) -> None:
    columns = [*map(str, RANKS), ALONE]
    names = ("transformers", "accelerate", "lightning")
    lines = [
        "# Programs on several ranks under `repdl run`",
        "",
        "`examples/several_ranks.py` trains small models on ranks of torch.distributed by gloo, for some steps. It "
        "knows nothing of RepDL. `lenet` (with batch normalisation) and `gpt` are of DistributedDataParallel, `zero` "
        "of ZeroRedundancyOptimizer, `fsdp2` of `fully_shard` with bfloat16, `tensor-parallel` of "
        "`parallelize_module`. In the last three the loop is another project's: accelerate with bfloat16 and gradients "
        "of two batches a step, the `Trainer` of transformers with the same accumulation, the `Trainer` of lightning.",
        "",
        "A column is a number of ranks, and each cell has the first 12 digits of all different digests of these ways "
        "to begin them: " + "; ".join(way.says for way in WAYS) + ". More processes than ranks are left out. An "
        "empty cell has not been run. Torch alone: with AVX2 and one thread; with its baseline ISA and two threads.",
        "",
        f"Written by `tools/ranks.py` on {date.today()}, torch {torch.__version__.partition('+')[0]}, "
        + "".join(f"{name} {version(name)}, " for name in names)
        + f"repdl-cpu: {shown(repdl.backends()['cpu'].details)}.",
        "",
        f"| program | {' | '.join(columns)} |",
        f"| --- |{' --- |' * len(columns)}",
        *(f"| {name} | {' | '.join(row.get(column, '') for column in columns)} |" for name, row in found.items()),
        "",
    ]
    PAGE.write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, choices=RANKS)
    parser.add_argument("--of", nargs="+", default=[*OF_TORCH, *OF_OTHERS], choices=[*OF_TORCH, *OF_OTHERS])
    args = parser.parse_args()
    found = table() or {name: {} for name in (*OF_TORCH, *OF_OTHERS)}
    together = tuple(name for name in OF_TORCH if name in args.of)
    groups = [together, *((name,) for name in OF_OTHERS if name in args.of)]
    for ranks in args.ranks:
        for programs in filter(None, groups):
            for name, cell in of_ranks(ranks, programs).items():
                found[name][str(ranks)] = cell
            if ranks == 3:
                for name, cell in of_torch_alone(programs).items():
                    found[name][ALONE] = cell
            write(found)
    cell_of = [(name, ranks, row.get(str(ranks), "")) for name, row in found.items() for ranks in RANKS]
    if wrong := [f"{name} on {ranks}" for name, ranks, cell in cell_of if "," in cell]:
        raise SystemExit(f"more than one digest: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
