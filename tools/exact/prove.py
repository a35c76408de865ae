"""Proof of the exact functions: every float32 argument, without hardware FMA, with it, with AVX-512.

    python tools/exact/prove.py [exp expm1_vec log_pairs pow:0.5 ...] [--builds x86-64 ...] [--sample N] [--record]

Needs c++ (or $CXX), an x86-64 CPU (builds that it cannot run are left out), and gmpy2 (which
brings MPFR). The functions are those of `repdl/pointwise/exact.hpp`. Prints a line for each function
and build, and fails if a result is wrong or if the builds differ in one bit. The arguments of
`hard.json`, which no screen in double decides, are part of every run; a run over all arguments writes
them, and its lines in docs/correctly-rounded-functions.md, with --record. That page says what is compared with what.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import gmpy2

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "packages/repdl-core/src/repdl_contract/include"
NATIVE = HERE.parents[1] / "packages/repdl-cpu/native"
HARD = HERE / "hard.json"
PAGE = HERE.parents[1] / "docs/correctly-rounded-functions.md"
STRUCT = re.compile(
    r'struct \w+ : (\w+) \{\s+static constexpr auto op = "(\w+)";\s+'
    r"(?:using Paths = \S+\s+)?REPDL_HD T operator\(\)\(T x\)"
)
"""Of a function of one tensor: its kind, `Exact` where there is one of a whole Vec, and its name."""
KINDS = {name: kind for kind, name in STRUCT.findall((INCLUDE / "repdl/pointwise/exact.hpp").read_text())}


def erfinv(x: gmpy2.mpfr) -> gmpy2.mpfr:
    """Newton's method, from any double to twice as many bits each time."""
    if gmpy2.is_nan(x) or abs(x) >= 1 or x == 0:
        return x if x == 0 else gmpy2.nan() if abs(x) != 1 else gmpy2.copy_sign(gmpy2.inf(), x)
    y, slope = gmpy2.mpfr(0), 2 / gmpy2.sqrt(gmpy2.const_pi())
    for _ in range(100):  # erf is concave: no step goes beyond
        step = (gmpy2.erf(y) - abs(x)) / (slope * gmpy2.exp(-y * y))
        y -= step
        if abs(step) <= y * gmpy2.exp2(-150):
            return y if x > 0 else -y
    raise ArithmeticError(f"erfinv({x}) did not converge")


PRECISELY: dict[str, Callable[[gmpy2.mpfr], gmpy2.mpfr]] = {
    "erfinv": erfinv,
    "rsqrt": lambda x: 1 / gmpy2.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
}
"""Those that MPFR has not under the same name."""
UP_TO_2_ULPS = ("cos", "erf", "exp2", "expm1", "log1p", "log2", "rsqrt", "sin")
UP_TO_8_ULPS = ("erfc", "erfinv")
MARGINS = {
    **dict.fromkeys(("exp", "log"), 51),
    **dict.fromkeys(UP_TO_2_ULPS, 50),
    **dict.fromkeys(UP_TO_8_ULPS, 48),
}
"""Minus the logarithm of the interval around the double of libm; 49, for errors up to 4 ulps, where none is said."""
SCREENS = " ".join(f"SCREEN({name}, 0x1p-{MARGINS.get(name, 49)})" for name in KINDS)
PAIRS = re.compile(r"(\w+)_by_pairs\(float x\)")
PAIRED = [
    name for header in sorted((INCLUDE / "repdl/exact").glob("*.hpp")) for name in PAIRS.findall(header.read_text())
]
"""Those that a GPU computes by pairs of floats."""
FUNCTIONS = [name + suffix for name, kind in KINDS.items() for suffix in ("", "_vec")[: 1 + (kind == "Exact")]]
FUNCTIONS += [f"{name}_pairs" for name in PAIRED]
"""Of an element, of a whole Vec, and of an element by pairs."""
BUILDS: dict[str, set[str]] = {
    "x86-64": set(),
    "x86-64-v3": {"avx2", "fma", "bmi2"},
    "x86-64-v4": {"avx512f", "avx512dq", "avx512vl"},
}
"""And what /proc/cpuinfo must name. Without hardware FMA and with it: the two meanings of `madd` in
repdl/contract/bits.hpp. And the widths of Vec in repdl-cpu, whose functions of a Vec are `<function>_vec`; what a GPU
computes by pairs of floats is `<function>_pairs`."""
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

PRECISE = gmpy2.context(precision=250)
FLOAT32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)


def correct(name: str, argument: int) -> int:
    """The bits of the right result: 250 bits, then one rounding with float32's exponents."""
    (x,) = struct.unpack("<f", struct.pack("<I", argument))
    with gmpy2.context(PRECISE):
        if not name.startswith("pow:"):
            one = of_element(name)
            precise = (PRECISELY.get(one) or getattr(gmpy2, one))(gmpy2.mpfr(x))
    with gmpy2.context(FLOAT32):
        if name.startswith("pow:"):  # MPFR's own rounding: powers can be midpoints
            value = float(gmpy2.mpfr(x) ** gmpy2.mpfr(exponent_of(name)))
        else:
            value = float(gmpy2.mpfr(precise, 24))
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return 0x7FC00000 if math.isnan(value) else int(bits)


def of_element(name: str) -> str:
    """The function of which "exp_vec" or "exp_pairs" is another form."""
    return name.removesuffix("_vec").removesuffix("_pairs")


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
    command = [
        os.environ.get("CXX", "c++"),
        *FLAGS,
        f"-march={march}",
        f"-I{INCLUDE}",
        f"-I{NATIVE}",
        f"-DSCREENS={SCREENS}",
        f"-DPAIRED={' '.join(f'PAIRS({name})' for name in PAIRED)}",
    ]
    subprocess.run([*command, str(HERE / "prove.cpp"), "-o", str(program), "-pthread"], check=True)
    return program


class Result(NamedTuple):
    """Of one function and build."""

    checked: str
    undecided: set[str]
    wrong: int
    digest: str
    seconds: float


def prove(name: str, march: str, program: Path, sample: int, threads: int, hard: list[str]) -> Result:
    """Run a function, give MPFR what the screen leaves undecided, and print what came out."""
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
    seconds = time.perf_counter() - start
    counts = f"checked {checked}  undecided {len(undecided)}  wrong {wrong}"
    print(f"{name} {march:9}  {counts}  hash {digest}  {seconds:.0f} s", flush=True)
    return Result(checked, set(undecided), wrong, digest, seconds)


def record(name: str, results: dict[str, Result], hard: dict[str, list[str]]) -> None:
    """Write what was undecided to hard.json, and the lines of the page's table."""
    if name == of_element(name):
        hard[name] = sorted(set(hard.get(name, [])).union(*(result.undecided for result in results.values())))
        HARD.write_text(json.dumps(hard, indent=1, sort_keys=True) + "\n")
    page = PAGE.read_text(encoding="utf-8")
    for march, r in results.items():
        start = f"| {name} | {march} | "
        line = f"{start}{r.checked} | {len(r.undecided)} | {r.wrong} | {r.digest} | {r.seconds:.0f} |"
        lines = [old for old in page.splitlines() if re.match(r"\| \w+ \| x86-64\S* \| \d+ \|", old)]
        old = next((old for old in lines if old.startswith(start)), "")
        page = page.replace(old, line) if old else page.replace(lines[-1], f"{lines[-1]}\n{line}")
    PAGE.write_text(page, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("functions", nargs="*", metavar="function", help=f"of {FUNCTIONS}")
    parser.add_argument("--builds", nargs="+", choices=BUILDS, default=list(BUILDS), help="default: all")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth argument; N odd")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help="write hard.json and the lines of the page")
    options = parser.parse_args()
    one_tensor = {name for name in options.functions if not name.startswith("pow:")}
    if unknown := one_tensor - set(FUNCTIONS):
        parser.error(f"unknown {sorted(unknown)}, expected some of {FUNCTIONS}")
    if options.sample < 1 or options.threads < 1 or options.sample % 2 == 0:
        parser.error("--sample and --threads must be at least 1, and the sample odd")
    if options.record and options.sample != 1:
        parser.error("--record needs a run over all arguments")

    hard: dict[str, list[str]] = json.loads(HARD.read_text()) if HARD.is_file() else {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        programs = {march: build(march, Path(folder)) for march in options.builds if runs(march)}
        for name in options.functions or FUNCTIONS:
            known = hard.get(of_element(name), [])
            results = {
                march: prove(name, march, program, options.sample, options.threads, known)
                for march, program in programs.items()
            }
            if len({result.digest for result in results.values()}) > 1:
                print(f"{name}: the builds differ")
                failed = True
            failed |= any(result.wrong for result in results.values())
            if options.record:
                record(name, results, hard)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
