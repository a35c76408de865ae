"""Correctly rounded elementary functions: the exact result, rounded once to float32.

Python's decimal module computes 28 significant digits or more. No finite float32 argument of
these functions has a result closer than 2**-64 (relatively) to a float32 or to the
midpoint of two, other than the exact ones (exp 0, log 1), so 28 digits decide every
rounding. A new function is one line, `name = correctly_rounded(decimal function)`: an op of
that name is it (`elementwise.py`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache

import numpy as np

from repdl.reference.arithmetic import CANONICAL_NAN, Array

SHORT = Context(prec=28, Emin=-999999, Emax=999999, traps=[])
"""For what decimal rounds correctly itself: no other errors add up."""

CONTEXT = Context(prec=60, Emin=-999999, Emax=999999, traps=[])
"""60 digits, and no exceptions: log(-1) is NaN, log(0) is -Infinity, exp(1e30) is Infinity."""

WIDE = Context(prec=200, Emin=-999999, Emax=999999, traps=[])
"""200 digits, for sums that cancel: exp(x) - 1 = x + x**2 / 2 + ... with x = 2**-149."""


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


class correctly_rounded:
    """A function on float32 arrays from one on decimals; every NaN is 0x7fc00000.

    `function` gets infinities, NaN and -0 too, computes with a context of its own, and is called
    once for each distinct bit pattern.
    """

    def __init__(self, function: Callable[[Decimal], Decimal]) -> None:
        @lru_cache(maxsize=1 << 20)
        def to_be_rounded(pattern: int) -> float:
            return to_odd(function(Decimal(*struct.unpack("<f", struct.pack("<I", pattern)))))

        self._to_be_rounded = to_be_rounded

    def __call__(self, x: Array) -> Array:
        x = np.asarray(x, dtype=np.float32)
        patterns, where = np.unique(x.reshape(-1).view(np.uint32), return_inverse=True)
        values = np.array([self._to_be_rounded(p) for p in patterns.tolist()])
        with np.errstate(all="ignore"):
            values = np.where(np.isnan(values), CANONICAL_NAN, values.astype(np.float32))
        return np.asarray(values[where.reshape(-1)].reshape(x.shape), dtype=np.float32)


exp = correctly_rounded(SHORT.exp)
"""e ** x: +0 for -inf, 1 for either zero, inf on overflow."""

log = correctly_rounded(SHORT.ln)
"""The natural logarithm: -inf for either zero, NaN below it."""


PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651"
)
LN_2 = WIDE.ln(Decimal(2))


def _exp2(x: Decimal) -> Decimal:
    if x.is_finite() and abs(x) < 1000 and x == int(x):  # 2**-150 is a midpoint
        return Decimal(math.ldexp(1.0, int(x)))
    return WIDE.exp(WIDE.multiply(x, LN_2))


def _log2(x: Decimal) -> Decimal:
    if x.is_finite() and x > 0 and math.frexp(float(x))[0] == 0.5:  # a power of two
        return Decimal(math.frexp(float(x))[1] - 1)
    return WIDE.divide(WIDE.ln(x), LN_2)


exp2 = correctly_rounded(_exp2)
"""2 ** x: +0 for -inf, 1 for either zero, inf on overflow."""

log2 = correctly_rounded(_log2)
"""The logarithm to base 2: -inf for either zero, NaN below it."""

log10 = correctly_rounded(SHORT.log10)
"""The logarithm to base 10: -inf for either zero, NaN below it."""

log1p = correctly_rounded(lambda x: x if x == 0 else WIDE.ln(WIDE.add(1, x)))
"""log(1 + x): the zero itself for either zero, -inf for -1, NaN below it."""

rsqrt = correctly_rounded(lambda x: WIDE.divide(1, WIDE.sqrt(x)))
"""1 / sqrt(x): the infinity of its sign for either zero, NaN below it."""


def _erf(x: Decimal) -> Decimal:
    """x exp(-x**2) 2 / sqrt(pi) times the sum of (2 x**2)**n / (1 * 3 * ... * (2n + 1))."""
    if x.is_nan() or x == 0:
        return x
    if x.copy_abs() > 4:  # 1 - erf(4) is below half an ulp of 1
        return Decimal(1).copy_sign(x)
    square = WIDE.multiply(x, x)
    term = total = Decimal(1)
    n = 0
    while term > Decimal("1e-70"):
        n += 1
        term = CONTEXT.divide(CONTEXT.multiply(term, CONTEXT.add(square, square)), 2 * n + 1)
        total = CONTEXT.add(total, term)
    factor = CONTEXT.multiply(CONTEXT.divide(2, CONTEXT.sqrt(PI)), CONTEXT.exp(square.copy_negate()))
    return CONTEXT.multiply(x, CONTEXT.multiply(factor, total))


def _sin(x: Decimal, shift: Decimal) -> Decimal:
    """sin(x + shift pi): the remainder by pi, then the series."""
    k = WIDE.add(WIDE.divide(x, PI), shift).to_integral_value()
    r = WIDE.subtract(x, WIDE.multiply(WIDE.subtract(k, shift), PI))
    square = CONTEXT.multiply(r, r)
    term = total = r
    n = 1
    while term.copy_abs() > r.copy_abs() * Decimal("1e-70"):
        n += 2
        term = CONTEXT.divide(CONTEXT.multiply(term, square.copy_negate()), n * (n - 1))
        total = WIDE.add(total, term)
    return total.copy_negate() if int(k) % 2 else total


erf = correctly_rounded(_erf)
"""The error function: the zero itself for either zero, -1 for -inf, 1 for inf."""

sin = correctly_rounded(lambda x: x if x == 0 else _sin(x, Decimal(0)) if x.is_finite() else Decimal("nan"))
"""The sine: the zero itself for either zero, NaN for the infinities."""

cos = correctly_rounded(
    lambda x: Decimal(1) if x == 0 else _sin(x, Decimal("0.5")) if x.is_finite() else Decimal("nan")
)
"""The cosine: 1 for either zero, NaN for the infinities."""

tan = correctly_rounded(
    lambda x: (
        x if x == 0 else WIDE.divide(_sin(x, Decimal(0)), _sin(x, Decimal("0.5"))) if x.is_finite() else Decimal("nan")
    )
)
"""The tangent: the zero itself for either zero, NaN for the infinities."""


def _one_plus_exp(x: Decimal) -> Decimal:
    return WIDE.add(1, WIDE.exp(x))


expm1 = correctly_rounded(lambda x: x if x == 0 else WIDE.subtract(WIDE.exp(x), 1))
"""e ** x - 1: the zero itself for either zero, -1 for -inf, inf on overflow."""

sigmoid = correctly_rounded(lambda x: WIDE.divide(1, _one_plus_exp(WIDE.minus(x))))
"""1 / (1 + e ** -x): 1/2 for either zero, +0 for -inf, 1 for inf."""

tanh = correctly_rounded(lambda x: x if x == 0 else WIDE.subtract(1, WIDE.divide(2, _one_plus_exp(WIDE.add(x, x)))))
"""The hyperbolic tangent: the zero itself for either zero, -1 for -inf, 1 for inf."""


HALF_PI = WIDE.divide(PI, 2)


def _arctan(x: Decimal) -> Decimal:
    """Beyond 1 by its reciprocal; then three halvings of the angle, and the series."""
    if x.is_nan() or x == 0:
        return x
    if x.copy_abs() > 1:
        return WIDE.subtract(HALF_PI.copy_sign(x), _arctan(WIDE.divide(1, x)))
    for _ in range(3):
        x = WIDE.divide(x, WIDE.add(1, WIDE.sqrt(WIDE.add(1, WIDE.multiply(x, x)))))
    square = WIDE.multiply(x, x).copy_negate()
    power = total = x
    n = 1
    while power.copy_abs() > x.copy_abs() * Decimal("1e-120"):
        n += 2
        power = WIDE.multiply(power, square)
        total = WIDE.add(total, WIDE.divide(power, n))
    return WIDE.multiply(8, total)


def _cosine_ratio(x: Decimal) -> Decimal:
    """sqrt((1 - x) (1 + x)), NaN beyond 1."""
    return WIDE.sqrt(WIDE.multiply(WIDE.subtract(1, x), WIDE.add(1, x)))


def _arcsin(x: Decimal) -> Decimal:
    if x == 0:
        return x
    return HALF_PI.copy_sign(x) if x.copy_abs() == 1 else _arctan(WIDE.divide(x, _cosine_ratio(x)))


def _arccos(x: Decimal) -> Decimal:
    """From the half of the angle, whose tangent is sqrt((1 - x) / (1 + x))."""
    if x == -1:
        return PI
    return WIDE.multiply(2, _arctan(WIDE.divide(_cosine_ratio(x), WIDE.add(1, x))))


def _of_sign(function: Callable[[Decimal], Decimal]) -> Callable[[Decimal], Decimal]:
    """An odd function, from one on positive numbers and NaN."""
    return lambda x: x if x == 0 else function(x.copy_abs()).copy_sign(x)


def _half_sum(x: Decimal, sign: int) -> Decimal:
    """(exp(x) + sign exp(-x)) / 2"""
    return WIDE.divide(WIDE.add(WIDE.exp(x), WIDE.multiply(sign, WIDE.exp(x.copy_negate()))), 2)


acos = correctly_rounded(_arccos)
"""The angle whose cosine is x: +0 for 1, NaN beyond 1."""

asin = correctly_rounded(_arcsin)
"""The angle whose sine is x: the zero itself for either zero, NaN beyond 1."""

atan = correctly_rounded(_arctan)
"""The angle whose tangent is x: the zero itself for either zero, half of pi for inf."""

cosh = correctly_rounded(lambda x: _half_sum(x, 1))
"""The hyperbolic cosine: inf for the infinities."""

sinh = correctly_rounded(_of_sign(lambda x: _half_sum(x, -1)))
"""The hyperbolic sine: the zero itself for either zero, the infinities themselves."""

acosh = correctly_rounded(
    lambda x: (
        Decimal("nan")
        if x.is_nan() or x < 1
        else WIDE.ln(WIDE.add(x, WIDE.sqrt(WIDE.multiply(WIDE.subtract(x, 1), WIDE.add(x, 1)))))
    )
)
"""The inverse of the hyperbolic cosine: +0 for 1, NaN below it."""

asinh = correctly_rounded(_of_sign(lambda x: WIDE.ln(WIDE.add(x, WIDE.sqrt(WIDE.add(WIDE.multiply(x, x), 1))))))
"""The inverse of the hyperbolic sine: the zero itself for either zero, the infinities themselves."""

atanh = correctly_rounded(_of_sign(lambda x: WIDE.divide(WIDE.ln(WIDE.divide(WIDE.add(1, x), WIDE.subtract(1, x))), 2)))
"""The inverse of the hyperbolic tangent: the zero itself for either zero, the infinities for 1 and -1, NaN beyond."""


def _erfc(x: Decimal) -> Decimal:
    """1 - erf(x), in 200 digits, as it is 1e-45 for the largest x whose result is not +0."""
    if x.is_nan():
        return x
    if x.copy_abs() > 11:
        return Decimal(2) if x < 0 else Decimal(0)
    square = WIDE.multiply(x, x)
    term = total = x
    n = 0
    while term.copy_abs() > Decimal("1e-120"):
        n += 1
        term = WIDE.divide(WIDE.multiply(term, WIDE.add(square, square)), 2 * n + 1)
        total = WIDE.add(total, term)
    factor = WIDE.multiply(WIDE.divide(2, WIDE.sqrt(PI)), WIDE.exp(square.copy_negate()))
    return WIDE.subtract(1, WIDE.multiply(factor, total))


def _erfinv(x: Decimal) -> Decimal:
    """Newton's method from 0; erf is concave, so that no step goes beyond."""
    if x.is_nan() or x >= 1:
        return Decimal("inf") if x == 1 else Decimal("nan")
    y = Decimal(0)
    while True:
        slope = CONTEXT.multiply(CONTEXT.divide(2, CONTEXT.sqrt(PI)), CONTEXT.exp(CONTEXT.multiply(y, y).copy_negate()))
        step = CONTEXT.divide(CONTEXT.subtract(x, _erf(y)), slope)
        y = CONTEXT.add(y, step)
        if step.copy_abs() <= y * Decimal("1e-40"):
            return y


erfc = correctly_rounded(_erfc)
"""1 - erf(x): 1 for either zero, 2 for -inf, +0 for inf."""

erfinv = correctly_rounded(_of_sign(_erfinv))
"""The inverse of the error function: the zero itself for either zero, the infinities for 1 and -1, NaN beyond."""


def _angle(y: Decimal, x: Decimal) -> Decimal:
    """That of the point (x, y)."""
    if y.is_nan() or x.is_nan():
        return Decimal("nan")
    if y.is_infinite() and x.is_infinite():
        y, x = Decimal(1).copy_sign(y), Decimal(1).copy_sign(x)
    if y == 0:
        return PI.copy_sign(y) if x.is_signed() else y
    if x == 0 or y.is_infinite():
        return HALF_PI.copy_sign(y)
    acute = _arctan(WIDE.divide(y, x).copy_abs())
    return (WIDE.subtract(PI, acute) if x < 0 else acute).copy_sign(y)


def atan2(y: Array, x: Array) -> Array:
    """The angle of (x, y), correctly rounded to float32; arrays of one shape."""
    with np.errstate(all="ignore"):
        values = [to_odd(_angle(Decimal(float(a)), Decimal(float(b)))) for a, b in zip(y.reshape(-1), x.reshape(-1))]
        result = np.array(values, dtype=np.float64).astype(np.float32).reshape(y.shape)
    return np.where(np.isnan(result), CANONICAL_NAN, result)
