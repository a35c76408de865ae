"""Numbers of Python rounded to a dtype in integers, against Python's fractions and numpy's conversions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from repdl.dtypes import rounding
from repdl.dtypes.rounding import DOUBLE, FORMATS, Format, element, encode, from_pattern, pattern_of, value_of
from repdl.ops.common import floating

SMALL = {torch.float16: np.float16, torch.float32: np.float32}
finite = st.floats(allow_nan=False, allow_infinity=False)


def bits(value: float, dtype: torch.dtype) -> int:
    """The pattern of a double in a dtype by numpy, which rounds once."""
    if dtype is torch.float64:
        return pattern_of(value)
    with np.errstate(over="ignore"):
        return int.from_bytes(SMALL[dtype](value).tobytes(), "little")


def boundaries(target: Format) -> Iterator[Fraction]:
    """Where rounding changes: around halves of steps at the smallest numbers, at powers of two and at the largest."""
    tiny = Fraction(2) ** target.lowest
    smallest_normal = tiny * 2 ** (target.precision - 1)
    largest = decoded(target.infinity - 1, target)
    ulp = decoded(target.infinity - 1, target) - decoded(target.infinity - 2, target)
    epsilon = Fraction(2) ** (1 - target.precision)
    steps = {tiny: tiny, 2 * tiny: tiny, smallest_normal: tiny, Fraction(1): epsilon, largest: ulp}
    for centre, step in steps.items():
        for quarters in range(-8, 9):
            for nudge in (-1, 0, 1):
                value = centre + step * quarters / 4 + nudge * step / 2**9
                if value >= 0:
                    yield value


def decoded(pattern: int, target: Format) -> Fraction:
    magnitude, exponent = rounding.decode(pattern, target)
    return Fraction(magnitude) * Fraction(2) ** exponent


def nearest(value: Fraction, target: Format) -> int:
    """The pattern of the nearest number, the even one of two, infinity from half a step beyond the largest on."""
    low, high = 0, target.infinity
    while high - low > 1:  # patterns are ordered as their numbers are
        middle = (low + high) // 2
        low, high = (middle, high) if decoded(middle, target) <= value else (low, middle)
    below = decoded(low, target)
    last = target.infinity - 1
    step = decoded(last, target) - decoded(last - 1, target) if low == last else decoded(high, target) - below
    distance = value - below
    return high if distance * 2 > step or (distance * 2 == step and low % 2) else low


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_encode__at_every_boundary(dtype: torch.dtype) -> None:
    target = FORMATS[dtype]
    for value in boundaries(target):
        exponent = 1 - value.denominator.bit_length()
        assert value.denominator == 2**-exponent
        assert encode(value.numerator, exponent, target) == nearest(value, target), value
        wide = encode(value.numerator << 70, exponent - 70, target)
        assert wide == nearest(value, target), value


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_element__of_doubles_at_every_boundary(dtype: torch.dtype) -> None:
    for value in map(float, boundaries(FORMATS[dtype])):
        for signed in (value, -value):
            assert element(signed, dtype) == bits(signed, dtype), signed
    for special in (math.inf, -math.inf, 0.0, -0.0):
        assert element(special, dtype) == bits(special, dtype)
    assert math.isnan(value_of(element(math.nan, dtype), dtype))


@given(finite)
def test_element__is_numpys_conversion(value: float) -> None:
    for dtype in (*SMALL, torch.float64):
        assert element(value, dtype) == bits(value, dtype)


@given(st.integers(-(2**1030), 2**1030))
def test_element__of_integers_is_rounded_once(value: int) -> None:
    for dtype, target in FORMATS.items():
        sign = (value < 0) << target.width - 1
        assert element(value, dtype) == nearest(Fraction(abs(value)), target) | sign


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_floating__of_64_bits_is_rounded_once(dtype: torch.dtype) -> None:
    """Around halves of the dtype's steps and of a double's, at every power of two."""
    precisions = (FORMATS[dtype].precision, DOUBLE.precision)
    values = {
        (1 << k) + (half << k >> p) + nudge
        for k in range(63)
        for p in precisions
        for half in (0, 1, 2, 3)
        for nudge in (-2, -1, 0, 1, 2)
    }
    values = {signed for value in values for signed in (value, -value) if -(2**63) <= signed < 2**63} | {-(2**63)}
    numbers = sorted(values)
    expected = [value_of(element(number, dtype), dtype) for number in numbers]
    found = floating(torch.tensor(numbers), dtype)
    assert found.dtype is dtype and found.double().tolist() == expected
    # Alone, a number of 53 bits goes another way than one of more.
    alone = [floating(torch.tensor([number]), dtype).double().item() for number in numbers]
    assert alone == expected


@given(finite, finite)
def test_arithmetic__is_that_of_doubles(a: float, b: float) -> None:
    for ours, theirs in ((rounding.add, a + b), (rounding.mul, a * b), (rounding.difference, a - b)):
        if math.isfinite(theirs) and theirs != 0:
            assert pattern_of(ours(a, b)) == pattern_of(theirs)
    if b != 0 and math.isfinite(a / b) and a / b != 0:
        assert pattern_of(rounding.div(a, b)) == pattern_of(a / b)
    assert rounding.sqrt(abs(a)) == math.sqrt(abs(a))


@given(st.integers(-(2**80), 2**80), st.integers(1, 2**80))
def test_ratio__is_rounded_once(numerator: int, denominator: int) -> None:
    assert rounding.ratio(numerator, denominator) == numerator / denominator


def test_value_of__gives_the_number_back() -> None:
    for dtype, target in FORMATS.items():
        for pattern in (0, 1, 2, (1 << target.precision - 1) - 1, 1 << target.precision - 1, target.infinity - 1):
            assert element(value_of(pattern, dtype), dtype) == pattern
    assert from_pattern(DOUBLE.infinity) == math.inf
