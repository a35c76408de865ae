"""What is particular to pow: exact results, midpoints, special values, derivatives, errors."""

from __future__ import annotations

import math
import struct
from typing import Any

import gmpy2
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import repdl
from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import SPECIAL
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

NAN, INF = float("nan"), float("inf")
FLOAT32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)
EXPONENTS = [0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, -2.0, 1.5, 2 / 3, 10.0, 0.1, -3.7]
patterns = st.integers(0, 0xFFFFFFFF)


def by_mpfr(x: float, e: float) -> int:
    """The bits of x ** e: MPFR's function rounds once."""
    with FLOAT32:
        value = float(gmpy2.mpfr(x) ** gmpy2.mpfr(e))
    return 0x7FC00000 if math.isnan(value) else struct.unpack("<I", struct.pack("<f", value))[0]


def assert_right(x: torch.Tensor, e: float) -> None:
    """pow's bits are those of MPFR, with the exponent rounded to float32."""
    e = torch.tensor(e, dtype=torch.float64).float().item()
    got = ops.pow(x, e).numpy().view(np.uint32).tolist()
    for value, bits in zip(x.tolist(), got):
        assert bits == by_mpfr(value, e), f"{value!r} ** {e!r}"


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("e", [*EXPONENTS, -0.0, 1e30, -1e30, INF, -INF, NAN, 2.0**-149, 16777215.0, 16777216.0])
def test_pow__special_values(e: float, backend: str) -> None:
    import repdl

    if backend not in repdl.backends() or repdl.backends()[backend].error is not None:
        pytest.skip(f"{backend} is not installed")
    x = torch.tensor([*SPECIAL, -1.0, 2.0, -2.0, 0.5, -0.5, 3e38, -3e38, 1 + 2.0**-23, 1 - 2.0**-24, -NAN])
    with repdl.use_backend(backend):
        assert_right(x, e)


@pytest.mark.parametrize("e", EXPONENTS)
def test_pow__random_arguments(e: float) -> None:
    rng = np.random.default_rng(0)
    exponents = np.arange(0, 256, dtype=np.uint32)[:, None] << np.uint32(23)
    bits = exponents | rng.integers(0, 1 << 23, (256, 8), dtype=np.uint32)
    assert_right(torch.from_numpy(bits.reshape(-1).view(np.float32)), e)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(x=patterns, e=patterns)
def test_pow__any_pair(x: int, e: int) -> None:
    pair = np.array([x, e], np.uint32).view(np.float32)
    assert_right(torch.from_numpy(pair[:1].copy()), float(pair[1]))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(x=st.integers(0, 2**23 - 1), power=st.floats(-150, 130))
def test_pow__pairs_with_finite_results(x: int, power: float) -> None:
    base = np.array([x | 0x40000000], np.uint32).view(np.float32)
    e = float(np.float32(power / math.log2(float(base[0]))))
    assert_right(torch.from_numpy(base), e)


def test_pow__midpoints_round_to_even() -> None:
    # An odd number of 13 bits squared has 25 or 26 bits: 25 bits and odd is a midpoint.
    odd = torch.arange(4097.0, 5792.0, 2.0)
    assert_right(odd, 2.0)
    assert_right(odd * 2.0**-60, 2.0)
    assert_right(torch.arange(257.0, 321.0, 2.0).square(), 1.5)  # cubes of 25 bits
    assert_right(torch.arange(17.0, 33.0, 2.0), 5.0)
    assert_right(torch.tensor([2.0, 4.0, 0.5]), -150.0)  # 2**-150, half the smallest subnormal
    assert_right(torch.arange(3.0, 64.0, 2.0) * 2.0**-77, 2.0)  # ties among subnormals


@pytest.mark.parametrize("e", EXPONENTS)
def test_pow__derivatives(e: float) -> None:
    x, grad, tangent = uniform(1, 4, 5).abs() + 0.5, uniform(2, 4, 5), uniform(3, 4, 5)
    second = [tangent] if e != 0 else []
    rounded = torch.tensor(e).item()
    actual = derivatives(lambda t: ops.pow(t, e), [x], grad, second)
    exact = derivatives(lambda t: torch.pow(t, rounded), [x.double()], grad.double(), [t.double() for t in second])
    for i, (a, f) in enumerate(zip(actual, exact)):
        # Up to |e (e - 1)| 2**(|e| + 2) in magnitude, at most 8 roundings; an exponent
        # e - 1 or e - 2 that is rounded changes x**e by 4 U at most.
        bound = (abs(e) + 1) * (abs(e) + 2) * 2.0 ** (abs(e) + 2)
        assert_within(a, f, 12 * U * bound, f"derivative {i}")


@pytest.mark.parametrize("e", [0, 0.0, 1, 2, 3, -1, 0.5, -0.5])
def test_pow__gradient_at_special_values_is_torchs(e: float) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 4.0, NAN, INF, -INF])
    if e in (0.5, -0.5):  # torch takes sqrt for pow here, and has the sign of -0 and NaN for -inf
        x[1] = x[7] = 0.0
    one, other = (derivatives(lambda t: f(t, e), [x], torch.ones(8))[1] for f in (ops.pow, torch.pow))
    assert torch.equal(one.isnan(), other.isnan())
    assert torch.equal(one.nan_to_num(7.0, 8.0, 9.0), other.nan_to_num(7.0, 8.0, 9.0))


def test_pow__exponent_is_rounded_to_float32() -> None:
    x = uniform(1, 50).abs() + 1
    assert_same_bits(ops.pow(x, 0.1), ops.pow(x, float(np.float32(0.1))))
    assert_same_bits(ops.pow(x, 1e300), torch.full_like(x, INF))
    assert_same_bits(ops.pow(x, np.float32(0.1)), ops.pow(x, 0.1))


@pytest.mark.parametrize("bad", [None, "a", 1j, True, 10**400])
def test_pow__rejects_exponents(bad: Any) -> None:
    x = torch.ones(2)
    assert_rejected(lambda: ops.pow(x, bad), TypeError, "pow: exponent", tensors=(x,))


def test_pow__rejects_inputs() -> None:
    x = torch.ones(2)
    assert_rejected(lambda: ops.pow(x.to(torch.complex64), 2.5), TypeError, "pow: ", "float32")
    assert_rejected(lambda: ops.pow(x, x.to(torch.complex64)), TypeError, "pow", "float32")
    assert_rejected(lambda: ops.pow(2.0, 3.0), ValueError, "pow: no tensor")
    assert_rejected(lambda: ops.pow("a", torch.ones(2)), TypeError, "pow: input")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.pow(torch.ones(2), torch.ones(3)), ValueError, "pow_tensor: ", "broadcast")


# A tensor as the exponent.


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_pow_tensor__bits_are_those_of_each_pair_alone(backend: str) -> None:
    import repdl

    if backend not in repdl.backends() or repdl.backends()[backend].error is not None:
        pytest.skip(f"{backend} is not installed")
    x = torch.tensor([*SPECIAL, -1.0, 2.0, -2.0, 0.5, 1 + 2.0**-23, 3.7])
    with repdl.use_backend(backend):
        for e in (*EXPONENTS, -0.0, INF, -INF, NAN, 2.0**-149):
            assert_same_bits(ops.pow(x, torch.full_like(x, e)), ops.pow(x, torch.tensor(e).item()))
        for base in (2.0, 0.0, -1.5, 1.0, INF):
            assert_same_bits(ops.pow(base, x), ops.pow(torch.full_like(x, base), x))


@pytest.mark.parametrize(
    ("input", "exponent"),
    [
        (torch.arange(3), torch.tensor([2, 0, 3])),
        (torch.arange(3), 2),
        (2, torch.arange(3)),
        (2.5, torch.arange(3)),
        (torch.arange(3), 0.5),
        (torch.arange(3), torch.ones(3)),
        (torch.tensor([True, False]), torch.ones(2)),
        (torch.ones(2).bfloat16() * 3, torch.ones(2)),
        (torch.ones(2).half() * 3, torch.tensor(2.0)),
        (torch.ones(2).bfloat16() * 3, torch.ones(2).bfloat16() * 2.5),
    ],
)
def test_pow_tensor__dtypes_are_torchs(input: Any, exponent: Any) -> None:
    result, expected = ops.pow(input, exponent), torch.pow(input, exponent)
    assert result.dtype is expected.dtype
    assert torch.equal(result, expected) or torch.allclose(result.float(), expected.float(), rtol=2.0**-7)


def test_pow_tensor__derivatives() -> None:
    x, e, grad = uniform(1, 4, 5).abs() + 0.5, uniform(2, 3, 1, 5) * 3, uniform(3, 3, 4, 5)
    tangents = [uniform(4, 4, 5), uniform(5, 3, 1, 5)]
    actual = derivatives(ops.pow, [x, e], grad, tangents)
    exact = derivatives(torch.pow, [x.double(), e.double()], grad.double(), [t.double() for t in tangents])
    for i, (a, f) in enumerate(zip(actual, exact)):
        # At most 16 terms, each of at most 12 roundings and below 2**8 in magnitude: |e| <= 3,
        # x**(e - 2) <= 2**5, and factors log x <= 1, e (e - 1) <= 12 among them.
        assert_within(a, f, 16 * 12 * U * 2.0**8, f"derivative {i}")


def test_pow_tensor__gradients_at_special_values_are_torchs() -> None:
    x = torch.tensor([0.0, 0.0, 0.0, 1.0, -1.0, 4.0, NAN, INF, 2.0, -2.0])
    e = torch.tensor([0.0, 1.0, -1.0, 2.0, 2.0, 0.5, 2.0, 1.0, 0.0, 3.0])
    ours, theirs = (derivatives(f, [x, e], torch.ones(10)) for f in (ops.pow, torch.pow))
    for one, other in zip(ours, theirs):
        assert torch.equal(one.isnan(), other.isnan())
        assert torch.allclose(one.nan_to_num(7.0, 8.0, 9.0), other.nan_to_num(7.0, 8.0, 9.0), rtol=4 * U, atol=0)


# float64


FLOAT64 = gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True)
DOUBLES = [-1, 0, 0.5, 1, 2, 3, -0.5, 1 / 3, 2.5, -2, 4, 1000.5, -1e-300, NAN, INF, -INF]


def by_mpfr_64(x: torch.Tensor, e: float) -> torch.Tensor:
    with FLOAT64:
        expected = torch.tensor([float(gmpy2.mpfr(value) ** gmpy2.mpfr(e)) for value in x.tolist()], dtype=x.dtype)
    return expected.masked_fill(expected.isnan(), NAN)


@pytest.mark.parametrize("exponent", DOUBLES)
def test_pow__float64(exponent: float) -> None:
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, 5e-324, -5e-324, 1e308, -1e308, 1e-160, 3.0], dtype=torch.double)
    x = torch.cat([special, uniform(1, 100).double() * torch.pi])
    expected = by_mpfr_64(x, exponent)
    for _ in range(3):  # as a function, recorded, replayed
        assert_same_bits(ops.pow(x, exponent), expected)
    assert_same_bits(ops.pow(x, torch.tensor(exponent, dtype=torch.double)), expected)
    with repdl.enabled():
        for result in (x**exponent, x.pow(float(exponent)), x.clone().pow_(exponent), torch.float_power(x, exponent)):
            assert_same_bits(result, expected)


@pytest.mark.parametrize("exponent", [2.0**n + part for n in (50, 51, 52, 53) for part in (0.0, 0.5, 1.0, 2.0)])
def test_pow__float64_signs_of_large_exponents(exponent: float) -> None:
    """Halves, odd and even integers around the last ones that a double tells apart."""
    x = -torch.tensor([1.0, 1 - 2.0**-53, 1 + 2.0**-52, 1 + 5 * 2.0**-52], dtype=torch.double)
    expected = by_mpfr_64(x, exponent)
    assert_same_bits(ops.pow(x, exponent), expected)
    assert_same_bits(ops.pow(x, torch.tensor(exponent, dtype=torch.double)), expected)


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, 0.3, -2.5])
def test_pow__float64_derivatives(exponent: float) -> None:
    x = uniform(2, 20).double().abs() + 0.5
    assert torch.autograd.gradcheck(lambda x: ops.pow(x, exponent), x.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda x: ops.pow(x, exponent), x)


def test_pow_tensor__float64_derivatives() -> None:
    x, e = (uniform(2, 7).double().abs() + 0.5).requires_grad_(), (uniform(3, 7).double() * 3).requires_grad_()
    assert torch.autograd.gradcheck(ops.pow, (x, e)) and torch.autograd.gradgradcheck(ops.pow, (x, e))
