"""Measures the errors of the fast paths of float64 (repdl/exact/double_double/) against their margins.

    python tools/exact/margins.py [exp erfc ...] [--random N] [--builds x86-64 ...] [--headers FOLDER]

A fast path computes hi + lo, and takes hi where an error of `margin` cannot change it. Here the margins and both
numbers are noted in a copy of the headers, and compared with 340 bits of MPFR. Prints the largest error beside each
margin of a function, as powers of two, and fails if an error is larger than its margin.
"""

from __future__ import annotations

import argparse
import math
import operator
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gmpy2
import numpy as np
from numpy.typing import NDArray
from prove import BUILDS, FLAGS, INCLUDE, runs

from repdl.testing import doubles

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "packages/repdl-core/tests/testing"))
import mpfr

Array = NDArray[np.float64]
FUNCTIONS = sorted([*doubles.RANGES, *doubles.TWO_OPERANDS])
CONSTANT_BEYOND = {"erf": 6.0, "erfc": 6.0, "tanh": 20.0}
"""From these sizes of the argument on the path computes another argument, whose result is the same double."""
ROUNDED = "rounded_grown(Pair<V> y, V grown) {\n"
NOTED = "  noted[0] = y.hi.v;\n  noted[1] = y.lo.v;\n  noted[2] = grown.v;\n"
CASE = """
    if (!std::strcmp(argv[1], "{name}")) {{
      const auto result = {name}({operands});
      value = result.value.v, decided = result.decided.m;
    }}"""
PROGRAM = """
#include <cstdio>
#include <cstring>
#include <vector>
namespace repdl::exact::double_double {{ inline double noted[3]; }}
#include "repdl/exact/doubles.hpp"
using namespace repdl::exact::double_double;
int main(int, char** argv) {{
  std::vector<double> in;
  for (double v; std::fread(&v, sizeof v, 1, stdin) == 1;) in.push_back(v);
  const std::size_t n = in.size() / (argv[2][0] - '0');
  for (std::size_t i = 0; i < n; ++i) {{
    const Double x{{in[i]}}, y{{in[in.size() - n + i]}};
    double value = 0.0, decided = 0.0;{cases}
    const double row[] = {{value, decided, noted[0], noted[1], noted[2]}};
    std::fwrite(row, sizeof row, 1, stdout);
  }}
}}
"""
"""Its arguments are a function and how many operands that has."""


def arguments(name: str, count: int) -> tuple[Array, ...]:
    """Random ones, and of one operand more of them that are of usual sizes or next to 1."""
    columns = doubles.random(name, count, seed=77)
    if name in doubles.TWO_OPERANDS:
        return columns
    random = np.random.default_rng(77)
    sizes = np.exp2(np.concatenate([random.uniform(-14, 3, count), random.uniform(3, 21, count // 2)]))
    sizes *= random.choice([-1.0, 1.0], sizes.size)
    near_1 = 1 - random.choice([-1.0, 1.0], count) * np.exp2(-random.uniform(0, 53, count))
    return (np.concatenate([columns[0], sizes, near_1]),)


def noting(headers: Path, folder: Path) -> Path:
    """A copy of the headers that notes what is rounded."""
    copy = folder / "include"
    shutil.copytree(headers, copy)
    path = copy / "repdl/exact/double_double/arithmetic.hpp"
    text = path.read_text()
    assert text.count(ROUNDED) == 1, path
    path.write_text(text.replace(ROUNDED, ROUNDED + NOTED))
    return copy


def compiled(build: str, headers: Path, folder: Path) -> Path:
    """The program, for a build."""
    source, program = folder / f"{build}.cpp", folder / build
    cases = [CASE.format(name=f, operands="x, y" if f in doubles.TWO_OPERANDS else "x") for f in FUNCTIONS]
    source.write_text(PROGRAM.format(cases="".join(cases)))
    command = [os.environ.get("CXX", "c++"), *FLAGS, f"-march={build}", f"-I{headers}", str(source)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def rows(name: str, columns: tuple[Array, ...], program: Path) -> Array:
    """value, decided, hi, lo and by what lo grew, of each argument."""
    data = b"".join(np.ascontiguousarray(x).tobytes() for x in columns)
    done = subprocess.run([str(program), name, str(len(columns))], input=data, stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, np.float64).reshape(-1, 5)


def errors(name: str, columns: tuple[Array, ...], table: Array) -> Iterator[tuple[float, float]]:
    """(margin, relative error of hi + lo) of each argument that the path decides."""
    function = mpfr.COMPOSED.get(name) or (operator.pow if name == "pow" else getattr(gmpy2, name))
    limit = CONSTANT_BEYOND.get(name, math.inf)
    with mpfr.PRECISE:
        for (value, decided, hi, lo, grown), *operands in zip(table.tolist(), *(x.tolist() for x in columns)):
            if not decided or value == 0 or abs(operands[0]) > limit:
                continue
            scale = gmpy2.mpfr(value) / hi  # the path rounds before it scales
            assert abs(math.frexp(float(scale))[0]) == 0.5, (name, operands)
            right = function(*map(gmpy2.mpfr, operands))
            yield (grown - 1) * 2.0**-54, float(abs((gmpy2.mpfr(hi) + lo) * scale / right - 1))


def measure(name: str, program: Path, count: int) -> dict[float, float]:
    """Margin -> the largest error beside it."""
    columns, largest = arguments(name, count), dict[float, float]()
    for margin, error in errors(name, columns, rows(name, columns, program)):
        largest[margin] = max(largest.get(margin, 0.0), error)
    return largest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("functions", nargs="*", metavar="function", help=f"of {FUNCTIONS}")
    parser.add_argument("--random", type=int, default=10_000, metavar="N", help="default: 10**4 a function")
    parser.add_argument("--builds", nargs="+", choices=BUILDS, default=["x86-64", "x86-64-v3"])
    parser.add_argument("--headers", type=Path, default=INCLUDE, help="a folder with repdl/exact")
    options = parser.parse_args()
    if unknown := set(options.functions) - set(FUNCTIONS):
        parser.error(f"unknown {sorted(unknown)}, expected some of {FUNCTIONS}")

    failed = False
    with tempfile.TemporaryDirectory() as folder:
        headers = noting(options.headers, Path(folder))
        for build in filter(runs, options.builds):
            program = compiled(build, headers, Path(folder))
            for name in options.functions or FUNCTIONS:
                found = measure(name, program, options.random)
                pairs = [f"2^{math.log2(error or 1e-99):.1f} of 2^{math.log2(m):.0f}" for m, error in found.items()]
                beyond = any(error > margin for margin, error in found.items())
                print(f"{name} {build}  error {', '.join(pairs)}{'  too large' * beyond}", flush=True)
                failed |= beyond
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
