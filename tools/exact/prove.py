"""Proof of the exact functions: every float32 argument, without hardware FMA, with it, with AVX-512.

    python tools/exact/prove.py [exp expm1_vec pow:0.5 ...] [--builds x86-64 ...] [--sample N] [--record]

Needs c++ (or $CXX), an x86-64 CPU (builds that it cannot run are left out), and gmpy2 (which
brings MPFR). Prints a line for each function and build, and fails if a result is wrong or if the
builds differ in one bit. The arguments of `hard.json`, which no screen in double decides, are part
of every run; a run over all arguments writes them with --record. docs/exact-functions.md says
what is compared with what.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gmpy2

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "packages/repdl-core/src/repdl_contract/include"
NATIVE = HERE.parents[1] / "packages/repdl-cpu/native"
HARD = HERE / "hard.json"
ONE: dict[str, Callable[[gmpy2.mpfr], gmpy2.mpfr]] = {
    "cos": gmpy2.cos,
    "erf": gmpy2.erf,
    "exp": gmpy2.exp,
    "exp2": gmpy2.exp2,
    "expm1": gmpy2.expm1,
    "log": gmpy2.log,
    "log10": gmpy2.log10,
    "log1p": gmpy2.log1p,
    "log2": gmpy2.log2,
    "rsqrt": lambda x: 1 / gmpy2.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
    "sin": gmpy2.sin,
    "tanh": gmpy2.tanh,
}
FUNCTIONS = {name + kind: function for name, function in ONE.items() for kind in ("", "_vec")}
"""Of an element, and of a whole Vec."""
BUILDS: dict[str, set[str]] = {
    "x86-64": set(),
    "x86-64-v3": {"avx2", "fma", "bmi2"},
    "x86-64-v4": {"avx512f", "avx512dq", "avx512vl"},
}
"""And what /proc/cpuinfo must name. Without hardware FMA and with it: the two meanings of `madd` in
repdl/exact/bits.hpp. And the widths of Vec in repdl-cpu, whose functions of a Vec are `<function>_vec`."""
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

PRECISE = gmpy2.context(precision=250)
FLOAT32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)


def correct(name: str, argument: int) -> int:
    """The bits of the right result: 250 bits, then one rounding with float32's exponents."""
    (x,) = struct.unpack("<f", struct.pack("<I", argument))
    with gmpy2.context(PRECISE):
        if not name.startswith("pow:"):
            precise = FUNCTIONS[name](gmpy2.mpfr(x))
    with gmpy2.context(FLOAT32):
        if name.startswith("pow:"):  # MPFR's own rounding: powers can be midpoints
            value = float(gmpy2.mpfr(x) ** gmpy2.mpfr(exponent_of(name)))
        else:
            value = float(gmpy2.mpfr(precise, 24))
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return 0x7FC00000 if math.isnan(value) else int(bits)


def exponent_of(name: str) -> float:
    """The exponent of "pow:0.1", rounded to float32."""
    (exponent,) = struct.unpack("<f", struct.pack("<f", float(name.removeprefix("pow:"))))
    return float(exponent)


def runs(march: str) -> bool:
    """Whether this machine runs a build."""
    cpu = Path("/proc/cpuinfo")
    return BUILDS[march] <= set(cpu.read_text().split() if cpu.is_file() else ())


def build(march: str, folder: Path) -> Path:
    """Compile prove.cpp for one instruction set."""
    program = folder / march
    command = [os.environ.get("CXX", "c++"), *FLAGS, f"-march={march}", f"-I{INCLUDE}", f"-I{NATIVE}"]
    subprocess.run([*command, str(HERE / "prove.cpp"), "-o", str(program), "-pthread"], check=True)
    return program


def prove(
    name: str, march: str, program: Path, sample: int, threads: int, hard: list[str]
) -> tuple[int, str, set[str]]:
    """The number of wrong results, the hash over all results, and the undecided arguments."""
    start = time.perf_counter()
    command = [str(program), name, str(sample), str(threads), *hard]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    *lines, (_, checked, wrong_count, digest) = (line.split() for line in run.stdout.splitlines())
    wrong = int(wrong_count)
    undecided = {argument: result for kind, argument, result in lines if kind == "undecided"}
    shown = [argument for kind, argument, _ in lines if kind == "wrong"]
    for argument, result in undecided.items():
        if int(result, 16) != correct(name, int(argument, 16)):
            wrong += 1
            shown.append(argument)
    for argument in shown[:20]:
        print(f"{name}(0x{argument}) is wrong, right is 0x{correct(name, int(argument, 16)):08x}")
    print(
        f"{name} {march:9}  checked {checked}  undecided {len(undecided)}  wrong {wrong}"
        f"  hash {digest}  {time.perf_counter() - start:.0f} s",
        flush=True,
    )
    return wrong, digest, set(undecided)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("functions", nargs="*", metavar="function", help=f"of {list(FUNCTIONS)}")
    parser.add_argument("--builds", nargs="+", choices=BUILDS, default=list(BUILDS), help="default: all")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth argument; N odd")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help="write what was undecided to hard.json")
    options = parser.parse_args()
    one_tensor = {name for name in options.functions if not name.startswith("pow:")}
    if unknown := one_tensor - set(FUNCTIONS):
        parser.error(f"unknown {sorted(unknown)}, expected some of {list(FUNCTIONS)}")
    if options.sample < 1 or options.threads < 1 or options.sample % 2 == 0:
        parser.error("--sample and --threads must be at least 1, and the sample odd")
    if options.record and options.sample != 1:
        parser.error("--record needs a run over all arguments")

    hard: dict[str, list[str]] = json.loads(HARD.read_text()) if HARD.is_file() else {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        programs = {march: build(march, Path(folder)) for march in options.builds if runs(march)}
        for name in options.functions or FUNCTIONS:
            known = hard.get(name.removesuffix("_vec"), [])
            results = [
                prove(name, march, program, options.sample, options.threads, known)
                for march, program in programs.items()
            ]
            if len({digest for _, digest, _ in results}) > 1:
                print(f"{name}: the builds differ")
                failed = True
            failed |= any(wrong for wrong, _, _ in results)
            if options.record and not name.endswith("_vec"):
                hard[name] = sorted(set(known).union(*(undecided for *_, undecided in results)))
                HARD.write_text(json.dumps(hard, indent=1, sort_keys=True) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
