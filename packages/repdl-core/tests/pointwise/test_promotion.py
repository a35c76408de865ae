"""Elementwise ops and reductions promote dtypes as torch does, and compute what torch computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

import repdl
from repdl.errors import ArgumentError, DeviceError, DTypeError, ShapeError, UnsupportedError
from repdl.testing import assert_same_bits, bits, uniform
from repdl.testing.cases.pointwise.elementwise import UNARY

ops = repdl.ops
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")


def operand(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Small numbers other than 0, of both signs where the dtype has them."""
    x = (torch.arange(1, torch.Size(shape).numel() + 1) % 5 + 1).reshape(shape)
    if dtype.is_signed:
        x = torch.where(x % 2 == 0, -x, x)
    return x.to(dtype) / 2 if dtype.is_floating_point else x.to(dtype)


def same(name: str, a: Any, b: Any) -> None:
    """The result dtype and, as the numbers are small, the values of torch; or an error where torch has one."""
    try:
        expected = getattr(torch, name)(a, b)
    except (RuntimeError, TypeError):
        with pytest.raises((RuntimeError, TypeError)):
            getattr(ops, name)(a, b)
        return
    actual = getattr(ops, name)(a, b)
    assert actual.dtype is expected.dtype, (name, a, b)
    assert actual.shape == expected.shape
    if name == "div" and actual.dtype in (torch.bfloat16, torch.float16):
        torch.testing.assert_close(actual, expected)
    else:
        assert_same_bits(actual + 0, expected + 0, f"{name} {a} {b}")


def test_promotion__all_pairs_of_dtypes_and_dimensions() -> None:
    for name, left, right in itertools.product(BINARY, FLOATS + WHOLE, FLOATS + WHOLE):
        for shapes in (((4, 3), (3,)), ((), (3,)), ((3,), ()), ((), ())):
            same(name, operand(left, *shapes[0]), operand(right, *shapes[1]))


def test_promotion__numbers() -> None:
    for name, dtype, number in itertools.product(BINARY[:4], FLOATS + WHOLE, (2, -1, 0.5, True)):
        for shape in ((3,), ()):
            same(name, operand(dtype, *shape), number)
            same(name, number, operand(dtype, *shape))
    for name, a, b in itertools.product(BINARY[:4], (2, 0.5, True), (3, 0.25, True)):
        same(name, a, b)


def test_promotion__a_mask() -> None:
    x = torch.tensor([1.5, -2.0, 3.0], requires_grad=True)
    y = ops.mul(x, x > 0)
    assert y.tolist() == [1.5, -0.0, 3.0]
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 0.0, 1.0]


def test_promotion__gradients_keep_the_dtype_of_their_operand() -> None:
    for left, right in itertools.product(FLOATS, FLOATS):
        a, b = (operand(dtype, 3).requires_grad_() for dtype in (left, right))
        ops.mul(a, b).sum().backward()
        assert a.grad is not None and b.grad is not None
        assert a.grad.dtype is left and b.grad.dtype is right
        torch.testing.assert_close(a.grad.double(), b.detach().double())


def test_promotion__large_integers_are_rounded_once() -> None:
    whole = [2**53 + 1, 2**63 - 1, -(2**62) - 12345678901, 2**24 + 1, 2**62 + 2**38 + 1, 7, -(2**63), 0]
    for dtype in (torch.float32, torch.float64):
        assert_same_bits(ops.mul(torch.tensor(whole), torch.ones(1, dtype=dtype)), torch.tensor(whole).to(dtype))


def test_promotion__integers_with_alpha() -> None:
    a = torch.arange(4)
    assert ops.add(a, a, alpha=3).tolist() == [0, 4, 8, 12]
    assert ops.sub(a, a, alpha=3).tolist() == [0, -2, -4, -6]
    assert ops.add(a, a.float(), alpha=0.5).dtype is torch.float32


def test_promotion__unary() -> None:
    for name, dtype in itertools.product(UNARY, WHOLE):
        x = operand(dtype, 5)
        try:
            expected = getattr(torch, name)(x)
        except (RuntimeError, TypeError):
            with pytest.raises((RuntimeError, TypeError)):
                getattr(ops, name)(x)
            continue
        actual = getattr(ops, name)(x)
        assert actual.dtype is expected.dtype, (name, dtype)
        torch.testing.assert_close(actual, expected, equal_nan=True)


def test_promotion__complex_raises() -> None:
    z = torch.ones(2, dtype=torch.complex64)
    for call in (lambda: ops.mul(z, z), lambda: ops.mul(z, 2), lambda: ops.exp(z), lambda: ops.sum(z)):
        with pytest.raises((DTypeError, UnsupportedError)):
            call()


POINTWISE: dict[str, tuple[int, Callable[..., Any]]] = {
    **{name: (2, getattr(ops, name)) for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow")},
    "div floor": (2, lambda a, b: ops.div(a, b, rounding_mode="floor")),
    "max": (2, ops.max),
    "clamp": (3, ops.clamp),
    "where": (2, lambda a, b: ops.where(a > b if a.device == b.device else a > 0, a, b)),
    "where condition": (2, lambda a, b: ops.where(torch.tensor(True), a, b)),
    "lerp": (2, lambda a, b: ops.lerp(a, b, 0.5)),
    "lerp tensor": (3, ops.lerp),
    "addcmul": (3, ops.addcmul),
    "addcdiv": (3, ops.addcdiv),
}


@pytest.mark.parametrize("device", ["meta", "cuda"])
def test_promotion__a_number_in_a_tensor_of_the_cpu_goes_to_the_device_of_the_others(device: str) -> None:
    for name, (operands, function) in POINTWISE.items():
        for numbers in itertools.product((False, True), repeat=operands):
            if all(numbers) or not any(numbers):
                continue
            with FakeTensorMode() if device == "cuda" else nullcontext():
                other = torch.ones(2, 3, device=device)
                result = function(*(torch.ones(()) if number else other for number in numbers))
                assert result.device.type == device and result.shape == (2, 3), (name, numbers)
    other = torch.ones(2, 3, device="meta")
    for a, b in ((torch.ones(1), other), (other, torch.ones(1)), (torch.ones((), device="meta"), torch.ones(2))):
        with pytest.raises(DeviceError, match="expected one device"):
            ops.add(a, b)


ROUNDED: dict[str, Callable[[Any], Any]] = {"floor": torch.floor, "trunc": torch.trunc}


@pytest.mark.parametrize("mode", ROUNDED)
def test_div__rounding_mode(mode: str) -> None:
    finite = [0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 3.5, 7.0, -7.0, 1e-40, -1e-40, 3e38, -3e38]
    x = torch.tensor([*finite, float("inf"), float("-inf"), float("nan")])
    a, b = x.unsqueeze(1), x
    actual, expected = ops.div(a, b, rounding_mode=mode), torch.div(a, b, rounding_mode=mode)
    usual = expected.abs() < 2**23  # torch's floor of larger quotients is a step or more off
    assert_same_bits(actual[usual], expected[usual])
    assert torch.equal(actual.isnan(), expected.isnan())
    torch.testing.assert_close(actual[~usual], expected[~usual], rtol=2**-22, atol=0.0, equal_nan=True)
    assert bits(actual[actual.isnan()]).unique().tolist() == [0x7FC00000]


def test_div__floor_is_that_of_the_exact_quotient() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-1000, 1000, (10000,), generator=generator).float() / d for d in (1, 10))
    b = torch.where(b == 0, 1.0, b)
    expected = torch.div(a.double(), b.double(), rounding_mode="floor").float()
    assert torch.equal(ops.div(a, b, rounding_mode="floor"), expected)
    assert ops.div(1.0, torch.tensor(0.1), rounding_mode="floor") == 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_div__floor_of_quotients_next_to_integers(dtype: torch.dtype) -> None:
    # Exactly, by fractions; Python's // and torch's, made of a remainder, are a step off from about 2**50 on.
    digits = 24 if dtype is torch.float32 else 53
    one = torch.ones((), dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    for scale in (1, 3 * 10**3, 2 ** (digits - 3), 2**digits):
        n = torch.randint(scale, 2 * scale, (200,), generator=generator).to(dtype)
        b = torch.rand(200, generator=generator, dtype=dtype) + one
        for a in (n * b, (n * b).nextafter(one), (n * b).nextafter(3 * n)):
            for x, y in ((a, b), (-a, b), (a, -b)):
                exact = [Fraction(p) / Fraction(q) for p, q in zip(x.tolist(), y.tolist())]
                # An integer below 2**53 is a double; the only rounding is one to float32.
                floors = torch.tensor([float(q.numerator // q.denominator) for q in exact], dtype=torch.float64)
                assert torch.equal(ops.div(x, y, rounding_mode="floor"), floors.to(dtype)), scale
    assert ops.div(torch.tensor(-1e-300, dtype=torch.float64), 1e300, rounding_mode="floor") == -1


def test_div__rounding_mode_in_float64_is_torchs() -> None:
    x = uniform(1, 3000).double() * 1e9
    y = uniform(2, 3000).double()
    for mode in ROUNDED:
        assert_same_bits(ops.div(x, y, rounding_mode=mode), torch.div(x, y, rounding_mode=mode))


def test_div__rounding_mode_of_integers_halves_and_derivative() -> None:
    a, b = torch.tensor([7, -7, 9]), torch.tensor([2, 2, -4])
    assert ops.div(a, b, rounding_mode="floor").tolist() == [3, -4, -3]
    assert ops.div(a, b, rounding_mode="trunc").tolist() == [3, -3, -2]
    assert ops.div(a, b, rounding_mode="floor").dtype is torch.int64
    half = ops.div(a.bfloat16(), 2, rounding_mode="floor")
    assert half.dtype is torch.bfloat16 and half.tolist() == [3.0, -4.0, 4.0]
    for mode in ROUNDED:
        x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([[0.0], [2.0]], requires_grad=True)
        ops.div(x, y, rounding_mode=mode).sum().backward()
        assert x.grad is not None and y.grad is not None
        assert x.grad.tolist() == [0.0, 0.0] and y.grad.tolist() == [[0.0], [0.0]]


def test_div__rounding_mode_errors() -> None:
    with pytest.raises(UnsupportedError, match="rounding_mode is 'up'"):
        ops.div(torch.ones(1), 2, rounding_mode="up")


def test_reductions__integers_and_bools() -> None:
    for dtype in WHOLE:
        x = operand(dtype, 4, 3, 2)
        for dim, keepdim in ((None, False), (1, True), ((0, 2), False), ((), False)):
            expected = torch.sum(x, dim, keepdim) if dim != () else torch.sum(x)
            assert_same_bits(ops.sum(x, dim, keepdim), expected)
        assert_same_bits(ops.sum(x, dtype=torch.float32), torch.sum(x, dtype=torch.float32))
        assert_same_bits(ops.mean(x, dtype=torch.float64), torch.mean(x, dtype=torch.float64))
        with pytest.raises(DTypeError):
            ops.mean(x)
        assert_same_bits(ops.max(x), torch.max(x))
        values, indices = ops.max(x, 1)
        assert_same_bits(values, torch.max(x, 1).values)
        assert_same_bits(indices, torch.argmax(x.long(), 1))
    assert ops.sum(torch.tensor([1.5, 2.5]), dtype=torch.int64).item() == 3
    assert_same_bits(ops.sum(torch.tensor(True)), torch.tensor(1))
    none = torch.ones(0, 2, dtype=torch.int64)
    for call in (lambda: ops.max(none), lambda: ops.max(none, 0)):
        with pytest.raises(ShapeError):
            call()


def test_reductions__numpys_names() -> None:
    x = torch.rand(3, 4)
    for name in ("sum", "mean"):
        assert_same_bits(getattr(ops, name)(x, axis=1, keepdims=True), getattr(ops, name)(x, 1, True))
    assert_same_bits(ops.max(x, axis=0, keepdims=True).values, ops.max(x, 0, True).values)
    with pytest.raises(ShapeError, match="dim is 0 and axis is 1"):
        ops.sum(x, 0, axis=1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax__third_position(name: str) -> None:
    x, function = torch.rand(3, 4), getattr(ops, name)
    half = function(x, 0, torch.bfloat16)
    assert half.dtype is torch.bfloat16 is getattr(torch, name)(x, 0, torch.bfloat16).dtype
    assert_same_bits(function(x, 0, 5), function(x, 0))
    with pytest.raises(ShapeError, match="dtype is given twice"):
        function(x, 0, torch.bfloat16, torch.float32)
    with pytest.raises(ArgumentError, match="_stacklevel"):
        function(x, 0, "float32")
