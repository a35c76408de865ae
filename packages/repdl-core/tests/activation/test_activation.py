"""What is particular to activations: formulas, derivatives, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl import ops
from repdl.random import Generator
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "silu": (ops.silu, F.silu),
    "elu": (lambda x: ops.elu(x, 0.7), lambda x: F.elu(x, 0.7)),
    "gelu": (ops.gelu, F.gelu),
    "hardsigmoid": (ops.hardsigmoid, lambda x: F.relu6(x + 3) / 6),  # torch has no second derivative of its own
    "hardswish": (ops.hardswish, F.hardswish),
    "leaky_relu": (lambda x: ops.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, 0.2)),
    "softplus": (ops.softplus, F.softplus),
    "softplus_2": (lambda x: ops.softplus(x, 2.0, 3.0), lambda x: F.softplus(x, 2.0, 3.0)),
    "celu": (lambda x: ops.celu(x, 0.7), lambda x: F.celu(x, 0.7)),
    "glu": (ops.glu, F.glu),
    "hardshrink": (ops.hardshrink, F.hardshrink),
    "hardtanh": (lambda x: ops.hardtanh(x, -0.4, 0.6), lambda x: F.hardtanh(x, -0.4, 0.6)),
    "logsigmoid": (ops.logsigmoid, F.logsigmoid),
    "mish": (ops.mish, F.mish),
    "prelu": (lambda x: ops.prelu(x, x.new_full((1,), 0.3)), lambda x: F.prelu(x, x.new_full((1,), 0.3))),
    "relu6": (ops.relu6, F.relu6),
    "rrelu": (ops.rrelu, F.rrelu),
    "selu": (ops.selu, F.selu),
    "softshrink": (ops.softshrink, F.softshrink),
    "softsign": (ops.softsign, F.softsign),
    "tanhshrink": (ops.tanhshrink, F.tanhshrink),
    "threshold": (lambda x: ops.threshold(x, 0.1, -2.0), lambda x: F.threshold(x, 0.1, -2.0)),
    "gelu_tanh": (lambda x: ops.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
}
LINEAR = {"hardsigmoid", "hardshrink", "hardtanh", "leaky_relu", "prelu", "relu6", "rrelu", "softshrink", "threshold"}
"""Made of straight pieces: without a second derivative."""
by_name = pytest.mark.parametrize("name", FUNCTIONS)


@by_name
@pytest.mark.parametrize("shape", [(), (0,), (300,), (2, 3)])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_activation__derivatives(name: str, shape: tuple[int, ...], scale: float) -> None:
    x, tangent = uniform(1, *shape, scale=scale), uniform(3, *shape)
    if name == "glu" and (not shape or shape[-1] % 2):
        return
    grad = uniform(2, *FUNCTIONS[name][1](x).shape)
    actual, exact = (
        derivatives(f, [x.to(d)], grad.to(d), [tangent.to(d)])
        for f, d in zip(FUNCTIONS[name], (torch.float32, torch.float64))
    )
    for i, (a, e) in enumerate(zip(actual, exact)):
        # |x| up to 4 and at most 12 roundings in a row, of numbers up to 2 + x**2 (second
        # derivative) or x u (tanh: u up to 2.6), which the sum at the end may cancel; elu has no sums.
        assert_within(a, e, 12 * U * (2 + scale**2), f"{name} derivative {i}")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in {*LINEAR, "hardswish"}])
def test_activation__third_derivative_exists(name: str) -> None:
    x = uniform(1, 6).requires_grad_()
    y = FUNCTIONS[name][0](x)
    for _ in range(3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert y.isfinite().all()


def test_activation__written_out_in_ops() -> None:
    x, g = uniform(1, 500, scale=8.0), uniform(2, 500)
    s = ops.sigmoid(x)
    assert_same_bits(ops.silu(x), x * s)
    assert_same_bits(torch.ops.repdl.silu_backward(g, x), g * (s * (1 + x * (1 - s))))
    t = ops.erf(x * torch.tensor(0.5**0.5))
    assert_same_bits(ops.gelu(x), (x * 0.5) * (1 + t))
    density = ops.exp((x * x) * -0.5) * torch.tensor(0.3989422804014327)
    assert_same_bits(torch.ops.repdl.gelu_backward(g, x, "none"), g * (0.5 * (1 + t) + x * density))
    scale = torch.tensor(0.7978845608028654)
    t = ops.tanh((x + ((x * x) * x) * 0.044715) * scale)
    assert_same_bits(ops.gelu(x, "tanh"), (x * 0.5) * (1 + t))
    slope = ((x * 0.5) * (1 - t * t)) * ((1 + (x * x) * 0.134145) * scale)
    assert_same_bits(torch.ops.repdl.gelu_backward(g, x, "tanh"), g * (0.5 * (1 + t) + slope))


def test_elu__large_arguments() -> None:
    """exp overflows where nothing is taken from it: no NaN in any derivative."""
    x = torch.tensor([100.0, 1e30, float("inf"), -0.0, -200.0]).requires_grad_()
    y = ops.elu(x)
    assert y.tolist() == [100.0, torch.tensor(1e30).item(), float("inf"), 0.0, -1.0] and y[3].signbit()
    for expected in ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0]):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist()[: len(expected)] == expected


def test_activation__special_values_are_torchs() -> None:
    """Zeros, subnormals, infinities and NaN, and the gradients there but for NaN, infinities of mish and softsign."""
    x = torch.tensor([0.0, -0.0, 2.0**-149, -(2.0**-149), 0.4, -0.4, 0.5, -0.5, 1.0, -1.0, 6.0, 7.0])
    ends = torch.tensor([float("nan"), float("inf"), float("-inf")])
    for name in ("celu", "hardshrink", "hardtanh", "logsigmoid", "mish", "relu6", "selu", "softshrink", "softsign"):
        for at, gradient in ((x, True), (ends, False)):
            (a, *da), (e, *de) = (
                derivatives(f, [at.to(d)], torch.ones_like(at, dtype=d))
                for f, d in ((getattr(ops, name), torch.float32), (getattr(F, name), torch.float64))
            )
            assert_within(a, e, 4 * U * 7 + 2.0**-149, name)
            if name != "softshrink":  # whose zeros have other signs in torch's vector path than in its scalar one
                assert a.signbit()[~a.isnan()].equal(e.to(torch.float32).signbit()[~a.isnan()]), name
            if gradient:
                assert_within(da[0], de[0], 4 * U * 2, name)
    for value in (0.1, -0.1):
        t = torch.tensor([0.1, 0.2, float("nan")])
        assert_same_bits(ops.threshold(t, 0.1, value), F.threshold(t, 0.1, value))


def test_prelu__a_weight_a_channel() -> None:
    x, grad = uniform(1, 3, 4, 5, scale=4.0), uniform(2, 3, 4, 5)
    for shape in ((4,), (1,)):
        w = uniform(3, *shape)
        actual = derivatives(ops.prelu, [x, w], grad)
        exact = derivatives(F.prelu, [x.double(), w.double()], grad.double())
        for a, e, roundings in zip(actual, exact, (1, 1, 61)):
            assert_within(a, e, roundings * U * 60 * 4)
    x = torch.tensor([[float("inf"), -1.0]], requires_grad=True)
    w = torch.tensor([0.5, 0.5], requires_grad=True)
    ops.prelu(x, w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [0.0, -1.0]  # not 0 * inf


def test_rrelu__draws_in_training_alone() -> None:
    x, generator = uniform(1, 50, 40), Generator(7)
    before = generator.get_state()
    assert_same_bits(ops.rrelu(x, 0.1, 0.3, generator=generator), ops.leaky_relu(x, 0.2))
    assert torch.equal(generator.get_state(), before)
    leaf = x.clone().requires_grad_()
    y = ops.rrelu(leaf, 0.1, 0.3, training=True, generator=generator)
    assert generator.position(0)[2] == x.numel()
    slopes = repdl.random.rand(50, 40, generator=Generator(7))
    y.sum().backward()
    assert leaf.grad is not None
    assert_same_bits(y.detach(), x * leaf.grad)
    assert (leaf.grad[x > 0] == 1).all()
    drawn = leaf.grad[x <= 0]
    assert drawn.min() >= 0.1 and drawn.max() < 0.3
    # `low + u * (high - low)` of the same u, in two roundings or in a fused one.
    assert_within(drawn, 0.1 + slopes.double()[x <= 0] * 0.2, 4 * U)
    again = ops.rrelu(x.clone(), 0.1, 0.3, True, True, generator=Generator(7))
    assert_same_bits(again, y.detach())


def test_gumbel_softmax() -> None:
    x = uniform(1, 40, 6, scale=2.0)
    e = repdl.random.exponential_(torch.empty(40, 6), generator=Generator(3))
    expected = ops.softmax((x - ops.log(e)) / 0.7, 1)
    soft = ops.gumbel_softmax(x, 0.7, generator=Generator(3))
    assert_same_bits(soft, expected)
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    hard = ops.gumbel_softmax(leaf, 0.7, hard=True, generator=Generator(3))
    assert torch.equal(hard.argmax(1), soft.argmax(1))
    assert_within(hard.detach(), F.one_hot(soft.argmax(1), 6).double(), 2 * U)
    grad = uniform(2, 40, 6)
    hard.backward(grad)
    ops.gumbel_softmax(other, 0.7, generator=Generator(3)).backward(grad)
    assert leaf.grad is not None and other.grad is not None
    assert_same_bits(leaf.grad, other.grad)
    half = ops.gumbel_softmax(x.bfloat16(), 0.7, generator=Generator(3))
    wide = ops.gumbel_softmax(x.bfloat16().float(), 0.7, generator=Generator(3))
    assert_same_bits(half, ops.cast(wide, torch.bfloat16))
    # Draws follow the softmax: 6000 of one row, within 5 standard deviations.
    many = ops.gumbel_softmax(x[0].expand(6000, 6), hard=True, generator=Generator(5)).double().mean(0)
    p = x[0].double().softmax(0)
    assert ((many - p).abs() <= 5 * (p * (1 - p) / 6000).sqrt()).all()


def test_activation__inplace() -> None:
    """Into the input, with the derivative of the values that were there."""
    calls = {
        **{name: getattr(ops, name) for name in ("celu", "hardtanh", "mish", "relu6", "selu")},
        "threshold": lambda x, inplace: ops.threshold(x, 0.1, -2.0, inplace),
        "rrelu": lambda x, inplace: ops.rrelu(x, 0.1, 0.3, True, inplace, generator=Generator(1)),
    }
    for name, call in calls.items():
        a, b = (uniform(1, 30).requires_grad_() for _ in range(2))
        moved, kept = a * 1, b * 1
        y, expected = call(moved, inplace=True), call(kept, inplace=False)
        assert y is moved, name
        assert_same_bits(y.detach(), expected.detach(), name)
        y.sum().backward()
        expected.sum().backward()
        assert a.grad is not None and b.grad is not None
        assert_same_bits(a.grad, b.grad, name)


def test_silu__inplace() -> None:
    x = uniform(1, 3, 4)
    expected, y = ops.silu(x), x.clone()
    assert ops.silu(y, inplace=True).data_ptr() == y.data_ptr()
    assert_same_bits(y, expected)
    leaf = x.clone().requires_grad_()
    ops.silu(leaf * 1, True).sum().backward()
    other = x.clone().requires_grad_()
    ops.silu(other).sum().backward()
    assert_same_bits(leaf.grad, other.grad)


def test_activation__rejects() -> None:
    x = uniform(1, 3)
    by_torch = lambda: F.gelu(x, approximate="sigmoid")
    assert_rejected(lambda: ops.gelu(x, "sigmoid"), ValueError, "gelu: approximate", by_torch=by_torch)
    assert_rejected(lambda: ops.silu(x, 1), TypeError, "silu: inplace")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.elu(x, "a"), TypeError, "elu: alpha")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.hardtanh(x, 1, -1), ValueError, "min_val is 1.0", by_torch=lambda: F.hardtanh(x, 1, -1))
    assert_rejected(lambda: ops.softshrink(x, -1), ValueError, "lambd is -1", by_torch=lambda: F.softshrink(x, -1))
    assert_rejected(lambda: ops.celu(x, 0), ValueError, "celu: alpha is 0", by_torch=lambda: F.celu(x, 0))
    assert_rejected(lambda: ops.glu(x), ValueError, "input.shape[0] is 3", by_torch=lambda: F.glu(x))
    assert_rejected(lambda: ops.glu(x, 2), IndexError, "dim is 2", by_torch=lambda: F.glu(x, 2))
    assert_rejected(
        lambda: ops.rrelu(x, 2, 1, True), ValueError, "lower is 2.0", by_torch=lambda: F.rrelu(x, 2, 1, True)
    )
    weights = torch.ones(2)
    by_torch = lambda: F.prelu(x, weights)
    assert_rejected(lambda: ops.prelu(x, weights), ValueError, "weight.numel() is 2", by_torch=by_torch)
    assert_rejected(lambda: ops.gumbel_softmax(x, dim=1), IndexError, "dim is 1")
    for name in (
        *("celu", "elu", "gelu", "glu", "logsigmoid", "mish", "relu6", "selu", "silu", "softshrink", "softsign"),
    ):
        for bad in (x.to(torch.int64), x.bool(), x.to(torch.complex64), 1.0, None):
            assert_rejected(lambda: getattr(ops, name)(bad), TypeError, f"{name}: ")
