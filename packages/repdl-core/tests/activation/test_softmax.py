"""What is particular to softmax and log_softmax: error bounds, derivatives, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import TINY, U, assert_rejected, assert_within, derivatives

BOTH = pytest.mark.parametrize("op", ["softmax", "log_softmax"])
F = torch.nn.functional


@BOTH
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.integers(0, 5), max_size=3),
    scale=st.sampled_from([1.0, 16.0]),
    data=st.data(),
)
def test_softmax__agrees_with_torch(op: str, shape: list[int], scale: float, data: Any) -> None:
    rank = max(len(shape), 1)
    dim = data.draw(st.integers(-rank, rank - 1))
    x, grad, tangent = uniform(1, *shape, scale=scale), uniform(2, *shape), uniform(3, *shape)
    actual = derivatives(lambda t: getattr(ops, op)(t, dim), [x], grad, [tangent])
    exact = derivatives(lambda t: getattr(F, op)(t, dim), [x.double()], grad.double(), [tangent.double()])
    # x - m is at most 2 * scale =: d, off by d * U, so exp is off by d * U + U of itself; s the same
    # and n additions more; the quotient one more: at most (2 * d + n + 4) * U of the output, or, for
    # log_softmax, that much and one rounding of values up to d + n.
    d, n = 2 * scale, 5
    error = (2 * d + n + 4) * U
    output = exact[0].abs() * error + TINY if op == "softmax" else (error + 2 * (d + n) * U)
    assert_within(actual[0], exact[0], output, op)
    # Derivatives are sums of at most 4 products of up to four factors: outputs <= 1, each off by
    # `error`, and numbers <= 1, over n elements.
    for i in (1, 2, 3):
        size = n * 4 * 2
        assert_within(actual[i], exact[i], size * (4 * error + (n + 6) * U + (d + n) * 4 * U), f"{op} {i}")


@BOTH
def test_softmax__layout_does_not_change_the_bits(op: str) -> None:
    x = uniform(1, 6, 4)
    for layout in (x.t(), x[::2, 1:], x[:1].expand(5, 4), torch._neg_view(x), x[:, :1].expand(6, 5)):
        for dim in (0, 1):
            dense = layout.resolve_neg().contiguous()
            assert_same_bits(getattr(ops, op)(layout, dim), getattr(ops, op)(dense, dim))


@BOTH
def test_softmax__a_row_does_not_depend_on_the_others(op: str) -> None:
    x = uniform(1, 9, 40)
    for i in range(9):
        assert_same_bits(getattr(ops, op)(x, 1)[i], getattr(ops, op)(x[i], 0))


def test_softmax__zero_dimensions() -> None:
    for dim in (0, -1):
        assert ops.softmax(torch.tensor(3.0), dim).item() == 1
        assert ops.log_softmax(torch.tensor(3.0), dim).item() == 0


def test_softmax__special_values() -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[1.0, -inf, 1.0], [inf, 1.0, 1.0], [nan, 1.0, 1.0], [-inf] * 3])
    assert torch.equal(ops.softmax(x, 1).isnan(), F.softmax(x, 1).isnan())
    assert ops.softmax(x, 1)[0].tolist() == [0.5, 0.0, 0.5]
    assert ops.log_softmax(x, 1)[0, 1].item() == -inf


def test_softmax__forbidden_rewrite_without_the_maximum() -> None:
    x = torch.tensor([200.0, 200.0])
    assert ops.softmax(x, 0).tolist() == [0.5, 0.5]  # exp(200) overflows
    assert ops.log_softmax(torch.tensor([0.0, 200.0]), 0)[0].item() == -200  # log(softmax) is -inf


def test_softmax__forbidden_rewrite_product_with_the_reciprocal() -> None:
    # Rows of n equal elements give fl(1 / n); of 0 and ln 2 sums like 3: e / 3, not e * fl(1 / 3).
    differ = 0
    for n in range(2, 60):
        x = torch.zeros(n)
        x[0] = -1.0
        e = ops.exp(x)
        s = ops.sum(e)
        assert_same_bits(ops.softmax(x, 0), e / s)
        differ += int((e / s != e * (1 / s)).any())
    assert differ


@BOTH
@pytest.mark.parametrize("dim", [2, -3])
def test_softmax__rejects_dimension(op: str, dim: int) -> None:
    x = uniform(1, 2, 3)
    call, theirs = getattr(ops, op), getattr(F, op)
    assert_rejected(
        lambda: call(x, dim), IndexError, f"{op}: dim is {dim}", tensors=(x,), by_torch=lambda: theirs(x, dim)
    )
    assert call(x, 1).shape == (2, 3)


@BOTH
@pytest.mark.parametrize("dim", [(0,), (0, 1), True, 1.0, "a"])
def test_softmax__rejects_types(op: str, dim: Any) -> None:
    x = uniform(1, 2, 3)
    call, theirs = getattr(ops, op), getattr(F, op)
    assert_rejected(lambda: call(x, dim), TypeError, f"{op}: dim", tensors=(x,), by_torch=lambda: theirs(x, dim))
    assert_rejected(lambda: call(1.0, 0), TypeError, f"{op}: input")
    assert_rejected(lambda: call(x), UnsupportedError, f"{op}: dim is None", "dim=")


@BOTH
@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64])
def test_softmax__rejects_dtypes(op: str, dtype: torch.dtype) -> None:
    x = torch.ones(2, 3, dtype=dtype)
    assert_rejected(lambda: getattr(ops, op)(x, 1), TypeError, op, str(dtype).removeprefix("torch."), tensors=(x,))
    assert_rejected(lambda: getattr(ops, op)(x.abs().float(), 1, dtype=dtype), UnsupportedError, op, "float64")


@BOTH
def test_softmax__float64(op: str) -> None:
    x = uniform(1, 3, 70).double() * torch.pi
    actual, expected = getattr(ops, op)(x, 1), getattr(torch, op)(x, 1)
    torch.testing.assert_close(actual, expected, rtol=2.0**-46, atol=0)
    assert_same_bits(getattr(ops, op)(x.float(), 1, dtype=torch.float64), getattr(ops, op)(x.float().double(), 1))
    leaf = x[:, :5].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: getattr(ops, op)(x, 1), leaf)
    assert torch.autograd.gradgradcheck(lambda x: getattr(ops, op)(x, 1), leaf)
