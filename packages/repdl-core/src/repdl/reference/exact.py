"""Correctly rounded elementary functions: the exact result, rounded once to float32 or float64.

Python's decimal module computes 120 significant digits. Where a sum cancels, at most 30 are lost, and 70
digits decide every rounding that is known to be hard: no result of these functions is known that is
closer than 2**-175 (relatively, 53 digits) to a float or to the midpoint of two, other than
those that are one. Where a result can be a midpoint (`exp2`, pow) it is computed exactly. A new function
is one line, `name = correctly_rounded(decimal function)`: an op of that name is it (`elementwise.py`).
"""

from __future__ import annotations

import math
import statistics
import struct
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import lru_cache

import numpy as np

from repdl.reference.arithmetic import CANONICAL_NAN_64, Array

CONTEXT = Context(prec=120, Emin=-999999, Emax=999999, traps=[])
"""No exceptions: log(-1) is NaN, log(0) is -Infinity, exp(1e30) is Infinity. Nothing underflows: x * x neither."""

SHORT = Context(prec=60, Emin=-999999, Emax=999999, traps=[])
"""For what decimal rounds correctly itself."""

LONG = Context(prec=520, Emin=-999999, Emax=999999, traps=[])
"""For the remainder by pi of numbers of 309 digits."""

EXACT = Context(prec=900, Emin=-999999, Emax=999999, traps=[])
"""For powers of two from 2**-1200."""


def to_odd(value: Decimal) -> float:
    """`value` as a float64, rounded to odd: an inexact result has its last bit set.

    Rounding that to float32 gives what rounding `value` itself would give (Boldo and
    Melquiond, IEEE TC 57(4), 2008), subnormal results included.
    """
    if not value.is_finite():
        return float(value)
    nearest = float(value)
    exact = Decimal(nearest)
    if exact == value or struct.pack("<d", nearest)[0] & 1:
        return nearest
    return math.nextafter(nearest, math.inf if exact < value else -math.inf)


TO_DOUBLE: dict[np.dtype, Callable[[Decimal], float]] = {np.dtype(np.float32): to_odd, np.dtype(np.float64): float}
"""The double that is converted to the dtype; Python rounds a decimal once, subnormal results included."""


class correctly_rounded:
    """A function on float32 or float64 arrays from one on decimals; every NaN is the canonical one.

    `function` has `operands` arguments, gets infinities, NaN and -0 too, computes in `context`, and is
    called once for each distinct argument.
    """

    def __init__(self, function: Callable[..., Decimal], operands: int = 1, context: Context = CONTEXT) -> None:
        self.operands = operands

        @lru_cache(maxsize=1 << 20)
        def to_be_converted(dtype: np.dtype, *patterns: int) -> float:
            with localcontext(context):
                arguments = (Decimal(*struct.unpack("<d", struct.pack("<Q", p))) for p in patterns)
                return TO_DOUBLE[dtype](function(*arguments))

        self._to_be_converted = to_be_converted

    def __call__(self, *operands: Array) -> Array:
        """Arrays of one dtype, which broadcast."""
        arrays = np.broadcast_arrays(*operands)
        dtype = np.result_type(*arrays)
        with np.errstate(all="ignore"):
            patterns = [a.astype(np.float64).reshape(-1).view(np.uint64).tolist() for a in arrays]
            values = np.array([self._to_be_converted(dtype, *p) for p in zip(*patterns)], dtype=np.float64)
            values[np.isnan(values)] = CANONICAL_NAN_64
            return values.astype(dtype).reshape(arrays[0].shape)


def _series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """first (1 + ratio(1) (1 + ratio(2) (1 + ...))), until a term does not change the sum."""
    total = term = first
    n = 0
    while not term.is_nan():
        n += 1
        term *= ratio(n)
        if total + term == total:
            break
        total += term
    return total


def _arctan(x: Decimal) -> Decimal:
    """Three halvings of the angle, and the series; for abs(x) at most 1."""
    for _ in range(3):
        x /= 1 + (1 + x * x).sqrt()
    square = x * x
    return 8 * _series(x, lambda n: square * (1 - 2 * n) / (2 * n + 1))


with localcontext(LONG):
    PI = 4 * _arctan(Decimal(1))
    HALF_PI = PI / 2
    LN_2 = Decimal(2).ln()
    SLOPE = 2 / PI.sqrt()
    """Of erf, at 0."""

NAN = Decimal("nan")


def _is_itself(function: Callable[[Decimal], Decimal]) -> Callable[[Decimal], Decimal]:
    """A function x + c x**2 + ... or x + c x**3 + ...: below 1e-30 x is the float next to it."""
    return lambda x: x if x.copy_abs() < Decimal("1e-30") else function(x)


def _of_sign(function: Callable[[Decimal], Decimal]) -> Callable[[Decimal], Decimal]:
    """An odd function, from one on positive numbers and NaN."""
    return lambda x: x if x == 0 else function(x.copy_abs()).copy_sign(x)


def dyadic(count: int, exponent: int) -> Decimal:
    """count 2**exponent, exactly; beyond 2**1200 and 2**-1200 those."""
    exponent = min(max(exponent, -1200), 1200)
    return Decimal(count << exponent) if exponent >= 0 else EXACT.divide(Decimal(count), Decimal(1 << -exponent))


exp = correctly_rounded(Decimal.exp, context=SHORT)
"""e ** x: +0 for -inf, 1 for either zero, inf on overflow."""

exp2 = correctly_rounded(
    lambda x: dyadic(1, int(x)) if x.is_finite() and x == x.to_integral_value() else (x * LN_2).exp()
)
"""2 ** x: +0 for -inf, 1 for either zero, inf on overflow."""

expm1 = correctly_rounded(_is_itself(lambda x: x.exp() - 1))
"""e ** x - 1: the zero itself for either zero, -1 for -inf, inf on overflow."""

log = correctly_rounded(Decimal.ln, context=SHORT)
"""The natural logarithm: -inf for either zero, NaN below it."""

log2 = correctly_rounded(lambda x: x.ln() / LN_2)
"""The logarithm to base 2: -inf for either zero, NaN below it."""

log10 = correctly_rounded(Decimal.log10, context=SHORT)
"""The logarithm to base 10: -inf for either zero, NaN below it."""

log1p = correctly_rounded(_is_itself(lambda x: (1 + x).ln()))
"""log(1 + x): the zero itself for either zero, -inf for -1, NaN below it."""

rsqrt = correctly_rounded(lambda x: 1 / x.sqrt())
"""1 / sqrt(x): the infinity of its sign for either zero, NaN below it."""

sigmoid = correctly_rounded(lambda x: 1 / (1 + x.copy_negate().exp()))
"""1 / (1 + e ** -x): 1/2 for either zero, +0 for -inf, 1 for inf."""

cosh = correctly_rounded(lambda x: (x.exp() + x.copy_negate().exp()) / 2)
"""The hyperbolic cosine: inf for the infinities."""

sinh = correctly_rounded(_is_itself(lambda x: (x.exp() - x.copy_negate().exp()) / 2))
"""The hyperbolic sine: the zero itself for either zero, the infinities themselves."""

tanh = correctly_rounded(_is_itself(lambda x: 1 - 2 / (1 + (x + x).exp())))
"""The hyperbolic tangent: the zero itself for either zero, -1 for -inf, 1 for inf."""

acosh = correctly_rounded(lambda x: (x + (x - 1).sqrt() * (x + 1).sqrt()).ln())
"""The inverse of the hyperbolic cosine: +0 for 1, NaN below it."""

asinh = correctly_rounded(_is_itself(_of_sign(lambda x: (x + (x * x + 1).sqrt()).ln())))
"""The inverse of the hyperbolic sine: the zero itself for either zero, the infinities themselves."""

atanh = correctly_rounded(_is_itself(lambda x: ((1 + x) / (1 - x)).ln() / 2))
"""The inverse of the hyperbolic tangent: the zero itself for either zero, the infinities for 1 and -1, NaN beyond."""


def _sine(x: Decimal, shift: Decimal = Decimal(0)) -> Decimal:
    """sin(x + shift pi), NaN for the infinities: the remainder by pi, then the series."""
    with localcontext(LONG):
        k = (x / PI + shift).to_integral_value()
        r = x - (k - shift) * PI
        odd = k % 2 != 0
    square = r * r
    total = _series(r, lambda n: -square / (2 * n * (2 * n + 1)))
    return total.copy_negate() if odd else total


def _cosine(x: Decimal) -> Decimal:
    return _sine(x, Decimal("0.5"))


sin = correctly_rounded(_sine)
"""The sine: the zero itself for either zero, NaN for the infinities."""

cos = correctly_rounded(_cosine)
"""The cosine: 1 for either zero, NaN for the infinities."""

tan = correctly_rounded(lambda x: _sine(x) / _cosine(x))
"""The tangent: the zero itself for either zero, NaN for the infinities."""


def _angle_of_slope(t: Decimal) -> Decimal:
    """Beyond 1 by its reciprocal."""
    return HALF_PI.copy_sign(t) - _arctan(1 / t) if t.copy_abs() > 1 else _arctan(t)


acos = correctly_rounded(lambda x: 2 * _angle_of_slope(((1 - x) / (1 + x)).sqrt()))
"""The angle whose cosine is x: +0 for 1, NaN beyond 1."""

asin = correctly_rounded(lambda x: _angle_of_slope(x / ((1 - x) * (1 + x)).sqrt()))
"""The angle whose sine is x: the zero itself for either zero, NaN beyond 1."""

atan = correctly_rounded(_angle_of_slope)
"""The angle whose tangent is x: the zero itself for either zero, half of pi for inf."""


def _angle(y: Decimal, x: Decimal) -> Decimal:
    """That of the point (x, y)."""
    if y.is_nan() or x.is_nan():
        return NAN
    if y.is_infinite() and x.is_infinite():
        y, x = Decimal(1).copy_sign(y), Decimal(1).copy_sign(x)
    if y == 0:
        return PI.copy_sign(y) if x.is_signed() else y
    if x == 0 or y.is_infinite():
        return HALF_PI.copy_sign(y)
    slope = (y / x).copy_abs()
    # A small angle is a little below its slope, which can be a midpoint of subnormal numbers.
    acute = slope.next_minus() if 0 < slope < Decimal("1e-60") else _angle_of_slope(slope)
    return (PI - acute if x < 0 else acute).copy_sign(y)


atan2 = correctly_rounded(_angle, operands=2)
"""The angle of (x, y), from y and x."""


def _erf(x: Decimal) -> Decimal:
    """x exp(-x**2) 2 / sqrt(pi) times the sum of (2 x**2)**n / (1 * 3 * ... * (2n + 1))."""
    if x.copy_abs() > 6:  # 1 - erf(6) is below half an ulp of 1
        return Decimal(1).copy_sign(x)
    square = x * x
    return SLOPE * (-square).exp() * _series(x, lambda n: 2 * square / (2 * n + 1))


def _erfc(x: Decimal) -> Decimal:
    """1 - erf(x); from 5 on exp(-x**2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / ...))), to 94 digits."""
    if not x > 5:
        return 1 - _erf(x)
    fraction = x
    for n in range(300, 0, -1):
        fraction = x + Decimal(n) / 2 / fraction
    return (-x * x).exp() * SLOPE / 2 / fraction


NORMAL = statistics.NormalDist(0, math.sqrt(0.5))
"""Its distribution function is (1 + erf(x)) / 2."""


def _erfinv(x: Decimal) -> Decimal:
    """Newton's method, from a double."""
    if not x < 1:
        return Decimal("inf") if x == 1 else NAN
    y = x / SLOPE if x < Decimal("0.5") else -Decimal(NORMAL.inv_cdf(float(1 - x) / 2))
    while True:
        step = (x - _erf(y)) / (SLOPE * (-y * y).exp())
        y += step
        if step.copy_abs() <= y * Decimal("1e-40"):
            return y


erf = correctly_rounded(_erf)
"""The error function: the zero itself for either zero, -1 for -inf, 1 for inf."""

erfc = correctly_rounded(_erfc)
"""1 - erf(x): 1 for either zero, 2 for -inf, +0 for inf."""

erfinv = correctly_rounded(_of_sign(_erfinv))
"""The inverse of the error function: the zero itself for either zero, the infinities for 1 and -1, NaN beyond."""
