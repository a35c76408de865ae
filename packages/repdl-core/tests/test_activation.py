"""What is particular to activations: formulas, derivatives, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
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
    "gelu_tanh": (lambda x: ops.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
}
by_name = pytest.mark.parametrize("name", FUNCTIONS)


@by_name
@pytest.mark.parametrize("shape", [(), (0,), (300,), (2, 3)])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_activation__derivatives(name: str, shape: tuple[int, ...], scale: float) -> None:
    x, grad, tangent = uniform(1, *shape, scale=scale), uniform(2, *shape), uniform(3, *shape)
    actual, exact = (
        derivatives(f, [x.to(d)], grad.to(d), [tangent.to(d)])
        for f, d in zip(FUNCTIONS[name], (torch.float32, torch.float64))
    )
    for i, (a, e) in enumerate(zip(actual, exact)):
        # |x| up to 4 and at most 12 roundings in a row, of numbers up to 2 + x**2 (second
        # derivative) or x u (tanh: u up to 2.6), which the sum at the end may cancel; elu has no sums.
        assert_within(a, e, 12 * U * (2 + scale**2), f"{name} derivative {i}")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("hardsigmoid", "hardswish", "leaky_relu")])
def test_activation__third_derivative_exists(name: str) -> None:
    x = uniform(1, 5).requires_grad_()
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
    for name in ("elu", "gelu", "silu"):
        for bad in (x.to(torch.int64), x.bool(), x.to(torch.complex64), 1.0, None):
            assert_rejected(lambda: getattr(ops, name)(bad), TypeError, f"{name}: ")
