"""The reference's arithmetic against exact rational numbers, and its orders against scalar loops."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from repdl.contract import Contract
from repdl.reference import arithmetic
from repdl.testing import ODD_CONTRACTS, uniform

CONTRACTS = ["v1", "sequential", *ODD_CONTRACTS, "dot_chunk=1,sum_lanes=1,sum_block=1"]
LARGEST = Fraction(2**24 - 1) * 2**104


def pattern(x: float) -> int:
    """The bits of a float32."""
    return int(np.float32(x).view(np.uint32))


def value(bits: int) -> np.float32:
    """The float32 of these bits."""
    return np.uint32(bits).view(np.float32)


def rounded(exact: Fraction, zero: float) -> float:
    """A rational number to the nearest float32, ties to even; `zero` is the zero of an exact 0."""
    if exact == 0:
        return zero
    sign, size = (-1.0 if exact < 0 else 1.0), abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()  # 2**exponent <= 2 * size
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    steps, rest = divmod(size, unit)
    steps += rest > unit / 2 or (rest == unit / 2 and steps % 2 == 1)
    result = steps * unit
    return sign * (float("inf") if result > LARGEST else float(result))


def exact_fma(a: float, b: float, c: float) -> float:
    """a * b + c of finite floats, rounded once; the sign of an exact zero as IEEE 754 has it."""
    product, addend = Fraction(a) * Fraction(b), Fraction(c)
    negative = bool(np.signbit(np.float32(a)) != np.signbit(np.float32(b)))
    both_negative_zero = product == 0 and addend == 0 and negative and bool(np.signbit(np.float32(c)))
    return rounded(product + addend, -0.0 if both_negative_zero else 0.0)  # x - x is +0


def assert_fma(a: int, b: int, c: int) -> None:
    """The reference's fma of these patterns is the exact one."""
    x, y, z = value(a), value(b), value(c)
    got = arithmetic.fma(np.array([x]), np.array([y]), np.array([z]))[0]
    right = exact_fma(float(x), float(y), float(z))
    assert pattern(got) == pattern(right), f"fma({float(x).hex()}, {float(y).hex()}, {float(z).hex()})"


finite = st.integers(0, 2**32 - 1).filter(lambda bits: bits & 0x7F800000 != 0x7F800000)


@settings(max_examples=1500, deadline=None)
@given(finite, finite, finite)
def test_fma__any_finite(a: int, b: int, c: int) -> None:
    assert_fma(a, b, c)


@settings(max_examples=1500, deadline=None)
@given(finite, finite, st.integers(-3, 3), st.integers(-60, 60), st.booleans())
def test_fma__addend_near_the_product(a: int, b: int, nudge: int, shift: int, subtract: bool) -> None:
    product = float(value(a)) * float(value(b))
    with np.errstate(all="ignore"):
        near = np.float32(np.ldexp(product, shift) * (-1 if subtract else 1))
    if np.isfinite(near):
        c = pattern(near) + nudge
        if c & 0x7F800000 != 0x7F800000 and 0 <= c < 2**32:
            assert_fma(a, b, c)


@settings(max_examples=1000, deadline=None)
@given(st.integers(0x1F000000, 0x21000000), st.integers(0x1F000000, 0x21000000), st.integers(0, 0x01000000))
def test_fma__subnormal_result(a: int, b: int, c: int) -> None:
    assert_fma(a, b, c)
    assert_fma(a | 0x80000000, b, c)


def bits_of(*floats: float) -> tuple[int, ...]:
    """Exact patterns of floats that are float32 already."""
    for x in floats:
        assert struct.unpack("<f", struct.pack("<f", x))[0] == x
    return tuple(pattern(x) for x in floats)


@pytest.mark.parametrize(
    "operands",
    [
        # In float64, c + a*b is a midpoint of two float32 after a first rounding: half an ulp
        # of c, plus or minus a product's last bit beyond float64's 53.
        (1 + 2.0**-12, 2.0**-24 * (1 - 2.0**-12), 1.0),
        (1 + 2.0**-23, 2.0**-24 * (1 - 2.0**-23), 1.0),
        (2.0**-24 * (1 + 2.0**-23), 1 + 2.0**-23, 1.0),
        (2.0**-50, 2.0**-50, 1 + 2.0**-23),
        (-(2.0**-50), 2.0**-50, 1.0),
        (2.0**-60, 1 + 2.0**-23, 2.0**60),
        # The same at the subnormals' ends, where the unit is 2**-149.
        (2.0**-75, 2.0**-75, 0.0),
        (-(2.0**-75), 2.0**-75, 0.0),
        (2.0**-75, 2.0**-75 * (1 + 2.0**-23), 0.0),
        (2.0**-75, 2.0**-75, 2.0**-149),
        (2.0**-100, -(2.0**-100), 2.0**-149),
        (2.0**-63, -(2.0**-64), 2.0**-126),
        # Overflow: half an ulp beyond the largest float, and just below that.
        (2.0**64, 2.0**63, (2 - 2.0**-23) * 2.0**126),
        (2.0**51, 2.0**52, (2 - 2.0**-23) * 2.0**127),
        (2.0**51 * (1 - 2.0**-24), 2.0**52, (2 - 2.0**-23) * 2.0**127),
        # Zeros.
        (0.0, -1.0, 0.0),
        (0.0, -1.0, -0.0),
        (3.0, -2.0, 6.0),
        (-3.0, 2.0, 6.0),
    ],
)
def test_fma__double_rounding_traps(operands: tuple[float, float, float]) -> None:
    assert_fma(*bits_of(*operands))


def test_fma__a_trap_that_float64_falls_into() -> None:
    """The cases above are no straw men: rounding float64's result again is wrong here."""
    a, b, c = np.float32(2.0**-24 * (1 + 2.0**-23)), np.float32(1 - 2.0**-23), np.float32(1 + 2.0**-23)
    # a * b = 2**-24 - 2**-70: below the midpoint of c and the next float, by less than float64 sees.
    naive = np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    got = arithmetic.fma(np.array([a]), np.array([b]), np.array([c]))[0]
    assert pattern(got) == pattern(exact_fma(float(a), float(b), float(c))) == pattern(c)
    assert pattern(naive) == pattern(c) + 1


def test_fma__not_finite() -> None:
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    one, zero = np.float32(1), np.float32(0)

    def fma(a: np.float32, b: np.float32, c: np.float32) -> float:
        return float(arithmetic.fma(np.array([a]), np.array([b]), np.array([c]))[0])

    assert fma(inf, one, one) == fma(one, one, inf) == fma(inf, inf, inf) == np.inf
    assert fma(-inf, one, one) == fma(one, one, -inf) == -np.inf
    assert all(np.isnan(fma(*args)) for args in [(inf, zero, one), (inf, one, -inf), (nan, one, one), (one, one, nan)])


def add(x: float, y: float) -> float:
    """A float32 sum of finite floats: exact, rounded once."""
    negative_zero = bool(np.signbit(np.float32(x)) and np.signbit(np.float32(y)))
    return rounded(Fraction(x) + Fraction(y), -0.0 if negative_zero else 0.0)


def join(parts: list[float]) -> float:
    """The tree, written as the contract text has it."""
    if len(parts) == 1:
        return parts[0]
    p = 1
    while p * 2 < len(parts):
        p *= 2
    return add(join(parts[:p]), join(parts[p:]))


def scalar_dot(a: list[float], b: list[float], contract: Contract) -> float:
    """Chains of fused multiply-adds in ascending k, joined by the tree."""
    parts: list[float] = []
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        if k == 0 or (contract.dot_chunk and k % contract.dot_chunk == 0):
            parts.append(0.0)
        parts[-1] = exact_fma(x, y, parts[-1])
    return join(parts) if parts else 0.0


def scalar_sum(x: list[float], contract: Contract) -> float:
    """Blocks of interleaved lanes, folded by halves, joined by the tree."""
    size = contract.sum_block or max(len(x), 1)
    parts = []
    for start in range(0, len(x), size):
        lanes = [0.0] * contract.sum_lanes
        for i, term in enumerate(x[start : start + size]):
            lanes[i % contract.sum_lanes] = add(lanes[i % contract.sum_lanes], term)
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [add(lanes[j], lanes[j + half]) for j in range(half)]
        parts.append(lanes[0])
    return join(parts) if parts else 0.0


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("n", [0, 1, 2, 9, 10, 11, 255, 256, 257, 601, 1025])
def test_dot__scalar_oracle(n: int, name: str) -> None:
    a, b = uniform(1, n).numpy(), uniform(2, n).numpy()
    right = scalar_dot(a.tolist(), b.tolist(), Contract.parse(name))
    assert pattern(float(arithmetic.dot(a, b, name))) == pattern(right)


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 48, 63, 64, 65, 150, 1023, 1024, 1025, 2200, 3100])
def test_sum__scalar_oracle(n: int, name: str) -> None:
    x = uniform(3, n).numpy()
    right = scalar_sum(x.tolist(), Contract.parse(name))
    assert pattern(float(arithmetic.sum(x, name))) == pattern(right)


def test_dot__columns_are_independent() -> None:
    a, b = uniform(1, 300, 4, 1).numpy(), uniform(2, 300, 1, 5).numpy()
    whole = arithmetic.dot(a, b, "v1")
    for i in range(4):
        for j in range(5):
            right = scalar_dot(a[:, i, 0].tolist(), b[:, 0, j].tolist(), Contract())
            assert pattern(float(whole[i, j])) == pattern(right)


def test_sum__of_negative_zeros_is_positive() -> None:
    assert pattern(float(arithmetic.sum(np.full(3, -0.0, np.float32), "v1"))) == 0


@pytest.mark.parametrize("n", range(1, 18))
def test_tree__splits_at_the_largest_power_of_two_below(n: int) -> None:
    parts = (uniform(4, n).numpy() * np.float32(1e4)).astype(np.float32)
    got = arithmetic.tree([part.reshape(1) for part in parts])[0]
    assert pattern(float(got)) == pattern(join(parts.tolist()))


def test_to_torch__one_nan() -> None:
    x = np.array([0xFFC00000, 0x7F800001, 0x7FC12345, 0x80000000], np.uint32).view(np.float32)
    result = arithmetic.to_torch(x).numpy().view(np.uint32).tolist()
    assert result == [0x7FC00000, 0x7FC00000, 0x7FC00000, 0x80000000]
