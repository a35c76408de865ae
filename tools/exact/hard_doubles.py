"""Writes the hard arguments of the correctly rounded functions in float64 that tests use.

    python tools/exact/hard_doubles.py FOLDER [--random N]

FOLDER has a list for each function, `exp.txt` and so on: lines of arguments and the result as hexadecimal floats,
hardest first, sizes that are special last. Of each list some rows are taken. sigmoid and erfinv, which
have no lists, get the hardest of N random arguments, and so do acosh and asinh, whose
lists have none near a midpoint. Every result is computed by MPFR.
Output: `repdl/testing/hard_doubles.txt`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import gmpy2
import numpy as np
from numpy.typing import NDArray

from repdl.testing import doubles

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "packages/repdl-core/tests/testing"))
import mpfr

Array = NDArray[np.float64]
HARDEST, BETWEEN, LAST = 44, 10, 6
"""How many rows of a list are taken: from the start, from everywhere, and from the end."""
SEARCHED = {"acosh": 20, "asinh": 20, "erfinv": 40, "sigmoid": 60}


def listed(path: Path, operands: int) -> tuple[Array, ...]:
    """The arguments of a list that are taken."""
    rows = [line.split()[:operands] for line in path.read_text().splitlines() if not line.startswith("#")]
    middle = rows[HARDEST:-LAST]
    taken = rows[:HARDEST] + middle[:: max(1, len(middle) // BETWEEN)][:BETWEEN] + rows[-LAST:]
    return tuple(np.array([[float.fromhex(x) for x in row] for row in taken]).T)


def closeness(name: str, x: float) -> float:
    """The distance of the exact result to the nearest midpoint of two floats, in units of their distance."""
    with mpfr.PRECISE:
        exact = (mpfr.COMPOSED.get(name) or getattr(gmpy2, name))(gmpy2.mpfr(x))
        if not gmpy2.is_finite(exact) or exact == 0:
            return 1.0
        ulp = max(gmpy2.get_exp(exact) - 53, -1074)
        return float(abs(abs(gmpy2.frac(abs(exact) * gmpy2.exp2(-ulp))) - 0.5))


def searched(name: str, count: int) -> tuple[Array, ...]:
    """The hardest of `count` random arguments that are not constant or the argument, nearly."""
    (x,) = doubles.random(name, count, seed=1)
    x = x[np.isfinite(x) & (np.abs(x) > 2.0**-45) & (np.abs(x) < 1000)]
    distances = np.array([closeness(name, value) for value in x.tolist()])
    hardest = np.argsort(distances, kind="stable")[: SEARCHED[name]]
    print(f"{name}: {len(x)} tried, within {distances[hardest[0]]:.1e} to {distances[hardest[-1]]:.1e} of a midpoint")
    return (x[hardest],)


def lines(name: str, columns: tuple[Array, ...]) -> list[str]:
    """Arguments and results as bit patterns."""
    patterns = [x.view(np.uint64).tolist() for x in (*columns, mpfr.correct(name, *columns))]
    return [" ".join([name, *(f"{p:016x}" for p in row)]) for row in zip(*patterns)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--random", type=int, default=200_000, metavar="N", help="random arguments of a search")
    options = parser.parse_args()
    text: list[str] = []
    for name in sorted([*doubles.RANGES, *doubles.TWO_OPERANDS]):
        path = options.folder / f"{name}.txt"
        if path.is_file():
            text += lines(name, listed(path, 1 + (name in doubles.TWO_OPERANDS)))
        if name in SEARCHED:
            text += lines(name, searched(name, options.random))
    doubles.HARD.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
