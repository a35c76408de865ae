"""Compares the correctly rounded functions of float64 with MPFR, on millions of arguments.

    python tools/exact/prove_double.py [exp pow ...] [--of cpu] [--random N] [--seed S] [--hard FOLDER]
    python tools/exact/prove_double.py exp --of header [--builds x86-64-v3 ...] [--include repdl/exact/doubles.hpp]
                                           [--call 'repdl::exact::exp(x)']

What is compared: the kernels of a backend (`reference`, `cpu`, `cuda`), or a function of a header, which is compiled
(`c++` or $CXX) for each build. Arguments: `repdl.testing.doubles`, N random ones among them, and all
rows of FOLDER (`exp.txt` and so on: arguments as hexadecimal floats, anything after them). Prints a line
for each function and build, and the first wrong results; fails if there is one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from prove import BUILDS, FLAGS, INCLUDE, runs

import repdl
from repdl import ops
from repdl.reference import exact
from repdl.reference.pointwise.pow import power
from repdl.testing import doubles

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "packages/repdl-core/tests/testing"))
import mpfr

Array = NDArray[np.float64]
Function = Callable[..., Array]
"""Of one array or two: the results, an array of the same length."""
FUNCTIONS = sorted([*doubles.RANGES, *doubles.TWO_OPERANDS])
CHUNK = 1 << 16
SHOWN = 20
PROGRAM = """
#include <cstdio>
#include <cstring>
#include <vector>
#include "{include}"
int main() {{
  std::vector<double> in;
  for (double v; std::fread(&v, sizeof v, 1, stdin) == 1;) in.push_back(v);
  const std::size_t n = in.size() / {operands};
  std::vector<double> out(n);
  for (std::size_t i = 0; i < n; ++i) {{
    const double x = in[i];
    [[maybe_unused]] const double y = in[in.size() - n + i];
    out[i] = {call};
  }}
  return std::fwrite(out.data(), sizeof(double), n, stdout) == n ? 0 : 1;
}}
"""
"""x and y are the operands in the order of the op: atan2(x, y) is the angle of (y, x)."""


def operands_of(name: str) -> int:
    return 1 + (name in doubles.TWO_OPERANDS)


def by_backend(name: str, backend: str) -> Function:
    """The op on tensors."""

    def function(*arrays: Array) -> Array:
        with repdl.use_backend(backend):
            result = getattr(ops, name)(*map(torch.from_numpy, arrays))
        return np.asarray(result.numpy())

    return function


def by_header(name: str, march: str, options: argparse.Namespace, folder: Path) -> Function:
    """A compiled program with one function, `repdl::exact::NAME` if nothing else is said."""
    operands = operands_of(name)
    source, program = folder / f"{name}_{march}.cpp", folder / f"{name}_{march}"
    call = options.call or f"repdl::exact::{name}({', '.join('xy'[:operands])})"
    source.write_text(PROGRAM.format(include=options.include, call=call, operands=operands))
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, *FLAGS, f"-march={march}", f"-I{INCLUDE}", str(source), "-o", str(program)], check=True)

    def function(*arrays: Array) -> Array:
        data = b"".join(x.tobytes() for x in arrays)
        run = subprocess.run([str(program)], input=data, stdout=subprocess.PIPE, check=True)
        return np.frombuffer(run.stdout, np.float64)

    return function


def listed(path: Path, operands: int) -> tuple[Array, ...]:
    """The arguments of a list."""
    rows = [line.split()[:operands] for line in path.read_text().splitlines() if not line.startswith("#")]
    return tuple(np.array([[float.fromhex(x) for x in row] for row in rows]).T)


def chunks(name: str, options: argparse.Namespace) -> Iterator[tuple[Array, ...]]:
    """Arrays of arguments, of bounded length."""
    yield doubles.arguments(name, 0, options.seed)
    if options.hard is not None and (options.hard / f"{name}.txt").is_file():
        yield listed(options.hard / f"{name}.txt", operands_of(name))
    for i in range(0, options.random, CHUNK):
        yield doubles.random(name, min(CHUNK, options.random - i), seed=1_000 + options.seed * 100_000 + i // CHUNK)


def rights(name: str, options: argparse.Namespace) -> Iterator[tuple[tuple[Array, ...], Array]]:
    """Arguments and the right results, a chunk after the other; MPFR is a few chunks ahead."""
    with ProcessPoolExecutor(options.jobs) as pool:
        pending: deque[tuple[tuple[Array, ...], Future[Array]]] = deque()
        for columns in chunks(name, options):
            pending.append((columns, pool.submit(mpfr.correct, name, *columns)))
            if len(pending) > 2 * options.jobs:
                columns, right = pending.popleft()
                yield columns, right.result()
        for columns, right in pending:
            yield columns, right.result()


def show(name: str, columns: tuple[Array, ...], got: np.float64, right: np.float64) -> None:
    """Print a wrong result."""
    arguments = ", ".join(float(x).hex() for x in columns)
    result, expected = (f"{float(v).hex()} (0x{v.view(np.uint64):016x})" for v in (got, right))
    print(f"{name}({arguments}) is {result}, right is {expected}")


def compare(name: str, functions: dict[str, Function], options: argparse.Namespace) -> int:
    """The number of wrong results; it and some of them are printed."""
    start, checked, wrong = time.perf_counter(), 0, dict.fromkeys(functions, 0)
    for columns, right in rights(name, options):
        checked += len(right)
        for what, function in functions.items():
            got = function(*columns)
            for i in np.flatnonzero(got.view(np.uint64) != right.view(np.uint64)).tolist():
                wrong[what] += 1
                if wrong[what] <= SHOWN:
                    show(f"{what}: {name}", tuple(x[i] for x in columns), got[i], right[i])
    for what, count in wrong.items():
        print(f"{name} {what}  checked {checked}  wrong {count}  {time.perf_counter() - start:.0f} s", flush=True)
    return sum(wrong.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("functions", nargs="*", metavar="function", help=f"of {FUNCTIONS}")
    parser.add_argument("--of", default="cpu", choices=["header", "reference", "cpu", "cuda"], help="default: cpu")
    parser.add_argument("--random", type=int, default=1_000_000, metavar="N", help="default: 10**6 a function")
    parser.add_argument("--seed", type=int, default=0, help="other random arguments")
    parser.add_argument("--hard", type=Path, metavar="FOLDER", help="lists of hard arguments, all of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes that run MPFR")
    parser.add_argument("--builds", nargs="+", choices=BUILDS, default=list(BUILDS), help="of a header; default: all")
    parser.add_argument("--include", default="repdl/exact/doubles.hpp", help="the header; default: %(default)s")
    parser.add_argument("--call", help="an expression of x (and y); default: repdl::exact::NAME(x)")
    options = parser.parse_args()
    if unknown := set(options.functions) - set(FUNCTIONS):
        parser.error(f"unknown {sorted(unknown)}, expected some of {FUNCTIONS}")

    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.functions or FUNCTIONS:
            if options.of == "header":
                functions = {m: by_header(name, m, options, Path(folder)) for m in options.builds if runs(m)}
            elif options.of == "reference":
                functions = {"reference": power if name == "pow" else getattr(exact, name)}
            else:
                functions = {options.of: by_backend(name, options.of)}
            wrong += compare(name, functions, options)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
