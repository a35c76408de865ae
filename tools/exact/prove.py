"""Proof of the exact functions: every float32 argument, without hardware FMA, with it, with AVX-512.

    python tools/exact/prove.py [exp expm1 ...] [--sample N]

Needs g++, an x86-64-v3 CPU (x86-64-v4 is left out where the CPU lacks it), and MPFR
(libmpfr-dev). Prints a line for each function and build, and fails if a result is wrong or
if the builds differ in one bit. docs/exact-functions.md says what is compared with what.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "packages/repdl-core/src/repdl_contract/include"
NATIVE = HERE.parents[1] / "packages/repdl-cpu/native"
FUNCTIONS = ["exp", "exp_vec", "expm1", "log", "log_vec", "sigmoid", "tanh"]
BUILDS = ["x86-64", "x86-64-v3", "x86-64-v4"]
"""Without hardware FMA and with it: the two meanings of `madd` in repdl/exact/bits.hpp. And the
widths of Vec in repdl-cpu, whose functions of a Vec are `<function>_vec`."""
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


def runs(march: str) -> bool:
    """Whether this CPU has what the build needs."""
    return march != "x86-64-v4" or "avx512bw" in Path("/proc/cpuinfo").read_text()


def build(march: str, folder: Path) -> Path:
    program = folder / march
    source = HERE / "prove.cpp"
    command = ["g++", *FLAGS, f"-march={march}", f"-I{INCLUDE}", f"-I{NATIVE}", str(source), "-o", str(program)]
    subprocess.run([*command, "-lmpfr", "-lgmp", "-pthread"], check=True)
    return program


def prove(name: str, march: str, program: Path, sample: int, threads: int) -> tuple[int, str]:
    """The number of wrong results and the hash over all results."""
    start = time.perf_counter()
    command = [str(program), name, str(sample), str(threads)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{name}, {march}: prove.cpp ended with {run.returncode}, expected 0")
    checked, undecided, wrong, digest = run.stdout.split()
    print(
        f"{name} {march:9}  checked {checked}  undecided {undecided}  wrong {wrong}"
        f"  hash {digest}  {time.perf_counter() - start:.0f} s",
        flush=True,
    )
    return int(wrong), digest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("functions", nargs="*", metavar="function", help=f"of {FUNCTIONS}")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth argument")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if unknown := set(options.functions) - set(FUNCTIONS):
        parser.error(f"unknown {sorted(unknown)}, expected some of {FUNCTIONS}")
    if options.sample < 1 or options.threads < 1:
        parser.error("--sample and --threads must be at least 1")

    failed = False
    with tempfile.TemporaryDirectory() as folder:
        programs = {march: build(march, Path(folder)) for march in BUILDS if runs(march)}
        for name in options.functions or FUNCTIONS:
            results = [
                prove(name, march, program, options.sample, options.threads)
                for march, program in programs.items()
            ]
            if len({digest for _, digest in results}) > 1:
                print(f"{name}: the builds differ")
                failed = True
            failed |= any(wrong for wrong, _ in results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
