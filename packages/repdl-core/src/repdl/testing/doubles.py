"""Arguments of the correctly rounded functions in float64: the same ones on every machine.

`arguments("exp", 1000)` has all kinds together, as an array for each operand; the other functions have
one kind each.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from repdl.reference.arithmetic import Array
from repdl.testing.inputs import integers

HARD = Path(__file__).parent / "hard_doubles.txt"
"""Lines of a name, arguments and the result, as bit patterns; `tools/exact/hard_doubles.py` writes them."""

Columns = tuple[Array, ...]
"""Float64 arrays of one dimension and one length, one for each operand."""

TWO_OPERANDS = ("atan2", "pow")

POSITIVE = [
    *(0.0, math.inf, math.nan),
    *(2.0**-1074, 3 * 2.0**-1074, 2.0**-1022 - 2.0**-1074, 2.0**-1022, 2.0**1023, math.nextafter(math.inf, 0.0)),
    *(1 - 2.0**-53, 1.0, 1 + 2.0**-52, 0.5, 1.5, 2.0, 3.0, 2.0**52 + 0.5, 2.0**53 - 1, 2.0**53, 1e300, 1e-300),
]
"""Zero, infinity, NaN, the ends of the subnormal and normal numbers, numbers around 1, the last odd integer."""

THRESHOLDS = [
    *(709.782712893384, 708.3964185322641, 744.4400719213812, 745.1332191019412),  # exp: inf, subnormals, +0
    *(1022.0, 1023.0, 1024.0, 1074.0, 1074.5, 1075.0),  # exp2
    *(710.475860073944, 19.061547465398498, 37.42994775023705, 36.7368005696771),  # sinh, tanh, expm1, sigmoid
    *(5.92158719165760, 5.863584748755168, 26.54325845425098, 27.226017111108366),  # erf, erfc
    *(0.7071067811865476, 1.4142135623730951, 2.718281828459045, 6.381615e8),
]
"""Where results start to be inf, subnormal, +0 or 1, and ends of usual reductions."""

RANGES: dict[str, list[tuple[float, float]]] = {
    "acos": [(-1, 1), (0.99, 1), (-1e-6, 1e-6)],
    "acosh": [(1, 1.01), (1, 1000)],
    "asin": [(-1, 1), (0.99, 1)],
    "asinh": [(-1, 1), (-1e6, 1e6)],
    "atan": [(-1, 1), (-100, 100)],
    "atanh": [(-1, 1), (0.99, 1)],
    "cos": [(-1.6, 1.6), (-100, 100), (-(2.0**30), 2.0**30)],
    "cosh": [(-1, 1), (-711, 711)],
    "erf": [(-1, 1), (-6, 6)],
    "erfc": [(-1, 1), (-6, 6), (6, 27.3), (26.5, 27.3)],
    "erfinv": [(-1, 1), (0.99, 1)],
    "exp": [(-1, 1), (-746, 710), (-745.2, -708.3)],
    "exp2": [(-1, 1), (-1076, 1025), (-1075, -1022)],
    "expm1": [(-1, 1), (-40, 710)],
    "log": [(0.5, 2), (0, 2.0**-1022), (0, 100)],
    "log10": [(0.5, 2), (0, 2.0**-1022), (0, 1000)],
    "log1p": [(-1, 1), (-1e-3, 1e-3), (0, 100)],
    "log2": [(0.5, 2), (0, 2.0**-1022), (0, 100)],
    "rsqrt": [(0.25, 4), (0, 2.0**-1022)],
    "sigmoid": [(-1, 1), (-40, 40), (-746, -708), (-1e-3, 1e-3)],
    "sin": [(-1.6, 1.6), (-100, 100), (-(2.0**30), 2.0**30)],
    "sinh": [(-1, 1), (-711, 711)],
    "tan": [(-1.6, 1.6), (-100, 100), (-(2.0**30), 2.0**30)],
    "tanh": [(-1, 1), (-20, 20)],
}
"""Where the results of a function of one operand are neither constant nor nearly the argument."""


def _from_bits(bits: Array) -> Array:
    return bits.astype(np.uint64).view(np.float64)


def _with_neighbours(values: Array) -> Array:
    """Finite values, and the number before and after each."""
    return np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)])


def _with_negatives(values: Array) -> Array:
    return np.concatenate([values, -values])


def _uniform(seed: int, count: int, low: float, high: float) -> Array:
    return low + (integers(seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53 * (high - low)


def _magnitudes(seed: int, count: int, low: int, high: int) -> Array:
    """Positive numbers from 2**low to 2**high, as many in each binade."""
    exponents = (integers(seed, count) % np.uint64(high - low)).astype(np.int64) + low
    return np.ldexp(_uniform(seed + 1, count, 1.0, 2.0), exponents)


def special(name: str) -> Columns:
    """Zeros, infinities, NaN and the ends of the format; of two operands all pairs of them."""
    values = _with_negatives(np.array(POSITIVE))
    if name in TWO_OPERANDS:
        return tuple(x.reshape(-1) for x in np.meshgrid(values, values))
    signalling = _from_bits(np.array([0x7FF0000000000001, 0xFFF7FFFFFFFFFFFF], np.uint64))
    return (np.concatenate([values, signalling]),)


def binades(name: str, seed: int = 0) -> Columns:
    """A number of each sign and exponent; of two operands each beside one of any other."""
    exponents = np.arange(4096, dtype=np.uint64) << np.uint64(52)
    first = _from_bits(exponents | (integers(seed, 4096) >> np.uint64(12)))
    return (first, _from_bits(integers(seed + 1, 4096)))[: 1 + (name in TWO_OPERANDS)]


def edges(name: str) -> Columns:
    """Arguments whose results are exact or nearly midpoints, and ends of reductions; each between its neighbours."""
    if name in TWO_OPERANDS:
        return EDGES[name]()
    powers = np.ldexp(1.0, np.array([*range(-1074, -120, 34), *range(-120, 70), *range(70, 1024, 34)]))
    steps = np.arange(1.0, 65.0)
    tens = np.array([float(f"1e{k}") for k in range(-22, 23)])
    points = [powers, 1.5 * powers[-300:], steps, steps - 0.5, steps * (math.pi / 2), steps * 0.6931471805599453, tens]
    return (_with_negatives(_with_neighbours(np.concatenate([*points, np.array(THRESHOLDS)]))),)


def _powers() -> Columns:
    """x**2, x**3 and x**5 of 54 bits or nearly so, subnormal too; roots of what has one; powers of two."""
    pairs: list[tuple[float, float]] = []
    for bits, e in ((27, 2), (18, 3), (11, 5), (8, 7)):
        odd = [(1 << (bits - 1)) + 2 * (z % (1 << (bits - 2))) + 1 for z in integers(e, 24).tolist()]
        pairs += [(math.ldexp(x, shift // e), float(e)) for x in odd for shift in (0, -1078, -1090)]
    pairs += [(float(x * x), e) for x in range(3, 60, 2) for e in (0.5, 1.5, 2.5, -0.5)]
    pairs += [(float(x**4), e) for x in range(3, 40, 2) for e in (0.25, 0.75, 1.25)]
    pairs += [(2.0**k, n / k) for k in (1, -1, 2, -2, 4, 64, -64) for n in (1023, 1024, -1022, -1074, -1075, -1076)]
    pairs += [(1 + k * 2.0**-52, e) for k in (-2, -1, 1, 2, 3) for e in (0.5, 1.5, 2.0, -1.0, 2.0**52, 1e19, -1e19)]
    x, e = np.array(pairs).T
    return _with_neighbours(x), np.tile(e, 3)


def _angles() -> Columns:
    """Quotients that are midpoints of subnormal numbers, all octants, equal operands."""
    odd = np.arange(1.0, 60.0, 2.0)
    tiny = [(y * 2.0**-1074, 2.0**k) for y in odd for k in (1, 2, 3, 50, 1000)]
    tiny += [(y * 2.0**-550, 2.0**k) for y in odd for k in (525, 526, 540)]
    near = [(y, x) for y in odd for x in (1.0, 3.0, 2.0**27, 2.0**54)]
    y, x = np.array([*tiny, *near, *((x, y) for y, x in near), *((z, z) for z in odd)]).T
    y, x = _with_neighbours(y), np.tile(x, 3)
    return np.concatenate([y, y, -y, -y]), np.concatenate([x, -x, x, -x])


EDGES = {"atan2": _angles, "pow": _powers}


@lru_cache(maxsize=1)
def _hard_rows() -> dict[str, Array]:
    rows: dict[str, list[list[int]]] = {}
    for line in HARD.read_text().splitlines():
        name, *patterns = line.split()
        rows.setdefault(name, []).append([int(p, 16) for p in patterns])
    return {name: np.array(table, dtype=np.uint64).T for name, table in rows.items()}


def hard(name: str) -> Columns:
    """The hardest arguments known: results nearest to midpoints. One more column: the results."""
    return tuple(_from_bits(column) for column in _hard_rows()[name])


def random(name: str, count: int, seed: int = 0) -> Columns:
    """About `count`: bit patterns of the whole range, magnitudes near 1, and values of `RANGES`."""
    seed *= 1000
    part = count // 4 + 1
    bits = _from_bits(integers(seed, part))
    if name in TWO_OPERANDS:
        pairs = _of_powers(part, seed) if name == "pow" else _of_one_size(part, seed)
        return np.concatenate([bits, pairs[0]]), np.concatenate([_from_bits(integers(seed + 1, part)), pairs[1]])
    near_1 = _magnitudes(seed + 2, part, -64, 11)
    near_1[1::2] *= -1
    ranges = RANGES[name]
    values = [_uniform(seed + 4 + i, 2 * part // len(ranges), low, high) for i, (low, high) in enumerate(ranges)]
    return (np.concatenate([bits, near_1, *values]),)


def _of_one_size(count: int, seed: int) -> Columns:
    """Pairs of any size whose quotient is between 2**-60 and 2**60, of any signs."""
    bits = integers(seed + 10, 3 * count)
    y, ratio = _magnitudes(seed + 11, 3 * count, -1074, 1024), _magnitudes(seed + 13, 3 * count, -60, 60)
    with np.errstate(all="ignore"):
        x = y * ratio
    sign = np.where(bits & np.uint64(1), -1.0, 1.0), np.where(bits & np.uint64(2), -1.0, 1.0)
    return y * sign[0], x * sign[1]


def _of_powers(count: int, seed: int) -> Columns:
    """Pairs whose powers are finite and not +0, most of them; exponents are any numbers, quarters, or integers."""
    wide = _magnitudes(seed + 10, count, -1074, 1024)
    near = _uniform(seed + 12, count, 0.25, 4.0)
    next_to_1 = 1.0 + _magnitudes(seed + 13, count, -52, -4) * np.where(
        integers(seed + 15, count) & np.uint64(1), -1, 1
    )
    bases = np.concatenate([wide, near, next_to_1])
    mantissas, exponents = np.frexp(bases)
    logarithms = (exponents - 1) + (2 * mantissas - 1)  # within 0.09
    logarithms = np.where(bases < 1, np.maximum(bases - 1, logarithms), logarithms)
    powers = _uniform(seed + 16, bases.size, -1076.0, 1026.0)
    with np.errstate(all="ignore"):
        e = np.where(logarithms == 0, powers, powers / logarithms)
    kind = integers(seed + 17, bases.size) % np.uint64(4)
    e = np.where(kind == 0, np.round(e), np.where(kind == 1, np.round(4 * e) / 4, e))
    negative = (kind == 0) & (integers(seed + 18, bases.size) & np.uint64(1) == 1)
    return np.where(negative, -bases, bases), e


def arguments(name: str, count: int = 1000, seed: int = 0) -> Columns:
    """All of these together, about `count` random ones among them: an array for each operand."""
    kinds = [special(name), binades(name, seed), edges(name), random(name, count, seed)]
    operands = 1 + (name in TWO_OPERANDS)
    return tuple(np.concatenate([*(kind[i] for kind in kinds), hard(name)[i]]) for i in range(operands))
