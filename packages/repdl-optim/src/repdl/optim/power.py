"""`base ** exponent` in double, correctly rounded, without the platform's math library.

C's `pow`, which Python's `**` calls, differs between systems in the last bit. Here the
power is computed in integers, with a bound on the error, until the bound excludes that
a double other than the result is nearest (Ziv's strategy).

Source: A. Ziv, "Fast evaluation of elementary mathematical functions with correctly
rounded last bit", ACM Transactions on Mathematical Software 17 (1991).
"""

from __future__ import annotations

from math import inf, isfinite
from operator import index

from repdl.dtypes.rounding import as_double, decode, difference, encode, from_pattern, is_zero, pattern_of


def power(base: float, exponent: int) -> float:
    """`base ** exponent`, rounded once to the nearest double, ties to even.

    Args:
        base: a finite double, not negative.
        exponent: an int, not negative. `power(x, 0)` is 1 for every x.

    Raises:
        ValueError: if `base` is negative, infinite or NaN, or `exponent` negative.
        TypeError: if `exponent` is not an integer.
        OverflowError: if the result is larger than the largest double.
    """
    base, n = as_double(base), index(exponent)
    if not (isfinite(base) and base >= 0):
        raise ValueError(f"power: base is {base}, expected a finite number that is not negative")
    if n < 0:
        raise ValueError(f"power: exponent is {n}, expected 0 or more")
    if n == 0 or base == 1:
        return 1.0
    if is_zero(base):
        return 0.0
    significand, scale = _odd(base)
    # 53 bits of the result, those of the error 4 n, and 25: one round in some 2**24 is undecided.
    bits = 80 + n.bit_length()
    while True:
        low, high, exponent2 = _bounds(significand, scale, n, bits)
        result = _nearest(low, exponent2)
        if low == high or result == _nearest(high, exponent2):
            break
        bits *= 2
    if result == inf:
        raise OverflowError(f"power: {base!r} ** {n} is larger than the largest double")
    return result


def bias_correction(beta: float, step: int) -> float:
    """`1 - beta ** step` in double: a correctly rounded power, then one more rounding."""
    return difference(1.0, power(beta, step))


def _odd(base: float) -> tuple[int, int]:
    """The odd m and the k with `base == m * 2**k`."""
    m, k = decode(pattern_of(base))
    zeros = (m & -m).bit_length() - 1
    return m >> zeros, k + zeros


def _bounds(m: int, k: int, n: int, bits: int) -> tuple[int, int, int]:
    """Integers low, high and e with `low * 2**e <= (m * 2**k)**n <= high * 2**e`.

    Squaring and multiplying from the leading bit of n down, each round cut to `bits`
    bits: value <= m**i, with relative error e(i). A cut loses less than u = 2**(1 - bits)
    of the value, a squaring doubles the error and m is exact, so e(2i) <= 2 e(i) + u and
    e(2i + 1) <= 2 e(i) + u; with e(1) = 0 that is e(n) <= (n - 1) u. It is below 1/2 as
    `bits` is larger than n.bit_length() + 2, so m**n <= value * (1 + 2 e(n)), and with
    value < 2**bits it lies less than 4 n above value.
    """
    value, shift, exact = m, 0, True
    for digit in bin(n)[3:]:
        value *= value
        shift *= 2
        if digit == "1":
            value *= m
        excess = value.bit_length() - bits
        if excess > 0:
            value >>= excess
            shift += excess
            exact = False  # m is odd, and so is m**i: a cut always loses a bit
    return value, value if exact else value + 4 * n, shift + k * n


def _nearest(value: int, exponent: int) -> float:
    """`value * 2**exponent` for a value above 0, rounded to the nearest double, ties to even."""
    return from_pattern(encode(value, exponent))
