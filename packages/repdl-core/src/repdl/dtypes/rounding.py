"""Python's numbers, decoded, rounded and encoded in integers.

A thread may flush subnormal numbers to zero or round upwards: Python's own arithmetic, numpy's
conversions and torch's `full`, `to` and `item` then do so too. Integer arithmetic does not.
"""

from __future__ import annotations

import math
import struct
import sys
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch


class Format(NamedTuple):
    """A binary floating-point format: bits of the significand, exponent of the smallest subnormal, bits in all."""

    precision: int
    lowest: int
    width: int

    @property
    def infinity(self) -> int:
        """The pattern of +inf."""
        return (1 << self.width - 1) - (1 << self.precision - 1)


DOUBLE = Format(53, -1074, 64)
FORMATS = {
    torch.float32: Format(24, -149, 32),
    torch.float64: DOUBLE,
    torch.bfloat16: Format(8, -133, 16),
    torch.float16: Format(11, -24, 16),
}
_NUMPY = {np.dtype(np.float32): Format(24, -149, 32), np.dtype(np.float16): Format(11, -24, 16)}


def encode(magnitude: int, exponent: int, target: Format = DOUBLE) -> int:
    """The pattern of `magnitude * 2**exponent`, not negative, rounded once to nearest even."""
    if magnitude.bit_length() + exponent < target.lowest:
        return 0  # below half of the smallest subnormal
    drop = max(magnitude.bit_length() - target.precision, target.lowest - exponent)
    if drop > 0:
        rest, half = magnitude & (1 << drop) - 1, 1 << drop - 1
        magnitude >>= drop
        magnitude += rest > half or (rest == half and magnitude & 1)
    else:
        magnitude <<= -drop
    # The leading bit of a normal significand adds 1 to the exponent's field; a carry out of it one more.
    steps = exponent + drop - target.lowest if magnitude else 0
    return min(magnitude + (steps << target.precision - 1), target.infinity)


def decode(pattern: int, source: Format = DOUBLE) -> tuple[int, int]:
    """m and e with `m * 2**e` the finite number of that pattern, its sign bit left out."""
    field, fraction = divmod(pattern & (1 << source.width - 1) - 1, 1 << source.precision - 1)
    leading = 1 << source.precision - 1 if field else 0
    return fraction + leading, max(field, 1) - 1 + source.lowest


def convert(pattern: int, source: Format, target: Format) -> int:
    """A pattern in another format, rounded once; every NaN is the positive quiet one."""
    negative, size = divmod(pattern, 1 << source.width - 1)
    if size > source.infinity:
        return target.infinity | 1 << target.precision - 2
    result = target.infinity if size == source.infinity else encode(*decode(size, source), target)
    return result | negative << target.width - 1


def pattern_of(value: float) -> int:
    """The bits of a double."""
    return int.from_bytes(struct.pack("<d", value), "little")


def from_pattern(pattern: int) -> float:
    """The double of that pattern."""
    result: float = struct.unpack("<d", pattern.to_bytes(8, "little"))[0]
    return result


def is_zero(value: float) -> bool:
    """Whether `value` is a zero, which a subnormal number is not."""
    return value == 0 and (isinstance(value, int) or pattern_of(value) in (0, 1 << 63))


def difference(a: float, b: float) -> float:
    """`a - b` of two finite doubles, rounded once."""
    (m, e), (n, f) = decode(pattern_of(a)), decode(pattern_of(b))
    low = min(e, f)
    left, right = (-x << s - low if pattern_of(v) >> 63 else x << s - low for x, s, v in ((m, e, a), (n, f, b)))
    return from_pattern(encode(abs(left - right), low) | (left < right) << 63)


def ratio(numerator: int, denominator: int) -> float:
    """The quotient of two integers as a double, rounded once; the denominator is positive."""
    shift = max(0, 66 + denominator.bit_length() - numerator.bit_length())  # 64 bits or more of the quotient
    whole, rest = divmod(abs(numerator) << shift, denominator)
    # One bit more says whether the quotient is inexact, which is all that rounding needs to know.
    return from_pattern(encode(whole << 1 | (rest > 0), -shift - 1) | (numerator < 0) << 63)


def add(a: float, b: float) -> float:
    """`a + b` of two finite doubles, rounded once."""
    return as_double(Fraction(a) + Fraction(b))


def mul(a: float, b: float) -> float:
    """`a * b` of two finite doubles, rounded once."""
    return as_double(Fraction(a) * Fraction(b))


def div(a: float, b: float) -> float:
    """`a / b` of two finite doubles, b not 0, rounded once."""
    return as_double(Fraction(a) / Fraction(b))


def sqrt(value: float) -> float:
    """The square root of a finite double that is not negative, rounded once."""
    magnitude, exponent = decode(pattern_of(value))
    shift = 128 + exponent % 2  # 64 bits or more of the root, of an even power of two
    square = magnitude << shift
    root = math.isqrt(square)
    # One bit more says whether the root is inexact, which is all that rounding needs to know.
    return from_pattern(encode(root << 1 | (root * root < square), (exponent - shift) // 2 - 1))


def as_double(value: Any) -> float:
    """A real number as a double, rounded once.

    Raises:
        TypeError, ValueError, OverflowError: as `float(value)`.
    """
    if isinstance(value, np.floating) and value.dtype in _NUMPY:
        pattern = int.from_bytes(value.tobytes(), sys.byteorder)
        return from_pattern(convert(pattern, _NUMPY[value.dtype], DOUBLE))
    if isinstance(value, (Fraction, Decimal)) and (isinstance(value, Fraction) or value.is_finite()):
        return ratio(*value.as_integer_ratio())
    return float(value)


@lru_cache(maxsize=1 << 12)
def _from_double(pattern: int, target: Format) -> int:
    return convert(pattern, DOUBLE, target)


@lru_cache(maxsize=1 << 12)
def _from_integer(value: int, target: Format) -> int:
    return encode(abs(value), 0, target) | (value < 0) << target.width - 1


def element(value: float, dtype: torch.dtype) -> int:
    """The bits of a number rounded once to `dtype`; an integer is not rounded to a double first."""
    target = FORMATS[dtype]
    return _from_integer(value, target) if isinstance(value, int) else _from_double(pattern_of(value), target)


@lru_cache(maxsize=1 << 12)
def value_of(pattern: int, dtype: torch.dtype) -> float:
    """The number of those bits, as a double."""
    return from_pattern(convert(pattern, FORMATS[dtype], DOUBLE))


def rounded(value: float, dtype: torch.dtype) -> float:
    """A number rounded once to `dtype`, as a double."""
    return value_of(element(value, dtype), dtype)
