"""power: against GMP's and MPFR's arithmetic, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import pytest
from hypothesis import example, given, settings, strategies as st

from repdl.optim.power import bias_correction, power

SMALLEST = 2.0**-1074
LARGEST = (2 - 2.0**-52) * 2.0**1023


def expected(base: float, exponent: int) -> float:
    """The power in MPFR with 4000 bits, then rounded once to a double, subnormals too.

    Whether that one rounding is safe is checked: neighbours of the 4000 bits round alike.
    """
    with gmpy2.context(precision=4000, emax=2**60, emin=-(2**60)):
        value = gmpy2.mpfr(base) ** exponent
        exact = not gmpy2.get_context().inexact
        around = [value] if exact else [gmpy2.next_below(value), gmpy2.next_above(value)]
    with gmpy2.ieee(64):
        # abs: where MPFR itself underflows, the neighbour below 0 rounds to -0
        results = {abs(float(gmpy2.mpfr(x))) for x in around}
    assert len(results) == 1
    return results.pop()


def check(base: float, exponent: int) -> None:
    want = expected(base, exponent)
    if math.isinf(want):
        with pytest.raises(OverflowError, match="larger than the largest double"):
            power(base, exponent)
    else:
        got = power(base, exponent)
        assert got.hex() == want.hex()
        assert isinstance(got, float)


@settings(max_examples=1500, deadline=None)
@given(st.floats(0.0, 1.0), st.integers(0, 2**24))
@example(0.9, 1)
@example(0.999, 16777216)
@example(SMALLEST, 1)
@example(SMALLEST, 2)
@example(1 - 2.0**-53, 2**24)
def test_power__betas(base: float, exponent: int) -> None:
    check(base, exponent)


@settings(max_examples=1500, deadline=None)
@given(st.floats(0.9, 1.0), st.integers(1, 100_000))
def test_power__near_1(base: float, exponent: int) -> None:
    check(base, exponent)


@settings(max_examples=800, deadline=None)
@given(st.floats(0.0, LARGEST), st.integers(0, 60))
@example(LARGEST, 1)
@example(LARGEST, 2)
@example(3.0, 646)
@example(3.0, 647)
@example(2.0, 1023)
@example(2.0, 1024)
@example(math.sqrt(LARGEST), 2)
@example(math.nextafter(math.sqrt(LARGEST), 2), 2)
def test_power__any_double(base: float, exponent: int) -> None:
    check(base, exponent)


@settings(max_examples=800, deadline=None)
@given(st.integers(2, 3000), st.floats(1020.0, 1076.0))
def test_power__subnormal_results(exponent: int, magnitude: float) -> None:
    base = 2.0 ** (-magnitude / exponent)
    check(base, exponent)


@settings(max_examples=500, deadline=None)
@given(st.integers(1, 2**26 - 1), st.integers(-600, 400))
def test_power__squares_that_fit_or_tie(significand: int, scale: int) -> None:
    # Squares of 26 bits are exact; of 27 bits they have up to 54, and may lie half-way.
    check(math.ldexp(significand, scale), 2)
    check(math.ldexp(2 * significand + 1, scale), 2)


@pytest.mark.parametrize("beta", [0.9, 0.99, 0.999, 0.95, 0.98, 0.5, 0.0, 1 - 2.0**-24])
def test_power__first_steps_exact(beta: float) -> None:
    exact = Fraction(1)
    for step in range(400):
        assert power(beta, step) == exact.numerator / exact.denominator  # CPython rounds this correctly
        assert bias_correction(beta, step) == 1.0 - power(beta, step)
        exact *= Fraction(beta)


@pytest.mark.parametrize("base", [0.75, 1.5, 0.375, 3.0])
def test_power__just_above_a_tie(base: float) -> None:
    # With d the spacing of doubles at 3/4, (3/4 + j d)**2 is 9/16 + 3 j d / 2 + (j d)**2: for
    # an odd j half-way between two doubles, but for the last term, far below the guard bits.
    # Every second one goes wrong if the cut value is taken for the power.
    spacing = math.ulp(base)
    for j in range(1, 200, 2):
        check(base + j * spacing, 2)


def test_power__special_values() -> None:
    assert power(0.0, 0) == 1.0
    assert power(0.7, 0) == 1.0
    assert power(0.0, 5) == 0.0
    assert power(-0.0, 3).hex() == "0x0.0p+0"
    assert power(1.0, 10**30) == 1.0
    assert power(0.3, 1) == 0.3
    assert power(0.5, 1074) == SMALLEST
    assert power(0.5, 1075) == 0.0  # half of the smallest: a tie, to even
    assert power(math.nextafter(0.5, 1), 1075) == SMALLEST
    assert power(0.5, 10**30) == 0.0
    assert power(0.999, 10**15) == 0.0
    assert power(2, 3) == 8.0 and isinstance(power(2, 3), float)
    assert bias_correction(0.0, 1) == 1.0


def test_power__undecided_at_first() -> None:
    # 1 + 2**-52, squared, is 1 + 2**-51 + 2**-104: just above a double, far below the guard bits.
    check(1 + 2.0**-52, 2)
    # 1 - 2**-53 has the square 1 - 2**-52 + 2**-106, just above a double that ends the binade.
    check(1 - 2.0**-53, 2)
    for exponent in (3, 5, 2**20, 2**24):
        check(1 - 2.0**-53, exponent)
        check(1 + 2.0**-52, exponent)


@pytest.mark.parametrize("base", [-0.5, -1.0, math.inf, -math.inf, math.nan])
def test_power__refuses_base(base: float) -> None:
    with pytest.raises(ValueError, match="power: base is"):
        power(base, 2)


def test_power__refuses_exponent() -> None:
    with pytest.raises(ValueError, match="power: exponent is -1"):
        power(0.5, -1)
    with pytest.raises(TypeError):
        power(0.5, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [647, 10**12])
def test_power__refuses_overflow(exponent: int) -> None:
    with pytest.raises(OverflowError, match="larger than the largest double"):
        power(3.0, exponent)
