"""What is particular to max: three signatures, ties, NaN, empty dimensions, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected, derivatives

FEW = settings(max_examples=40, deadline=None, derandomize=True)
NAN = float("nan")
coarse = st.sampled_from([-1.0, 0.0, 1.0, 2.0, NAN, float("inf"), -float("inf")])


def canonical(x: torch.Tensor) -> torch.Tensor:
    """The one NaN of the contract in place of any."""
    return torch.where(x.isnan(), torch.tensor(NAN), x)


@FEW
@given(shape=st.lists(st.integers(1, 4), max_size=3), data=st.data(), keepdim=st.booleans())
def test_max__values_indices_and_gradients_are_torchs(shape: list[int], data: Any, keepdim: bool) -> None:
    n = torch.Size(shape).numel()
    x = torch.tensor(data.draw(st.lists(coarse, min_size=n, max_size=n))).reshape(shape)
    dim = data.draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    ours, theirs = ops.max(x, dim, keepdim), torch.max(x, dim, keepdim)
    assert isinstance(ours, torch.return_types.max)
    assert_same_bits(ours.indices, theirs.indices)
    assert_same_bits(ours.values, canonical(theirs.values))
    grad = uniform(1, *ours.values.shape)
    one, other = (derivatives(lambda t: f(t, dim, keepdim)[0], [x], grad)[1] for f in (ops.max, torch.max))
    assert torch.equal(one, other)
    assert_same_bits(ops.max(x), canonical(torch.max(x)))
    # The gradient g / m, rounded, of m equal elements; torch's scatter may give g * (1 / m): 2 ulp.
    one, other = (derivatives(f, [x], torch.tensor(1.0))[1] for f in (ops.max, torch.max))
    assert ((one - other).abs() <= 2.0**-23 * other.abs()).all()


def test_max__two_tensors_is_maximum() -> None:
    a, b = uniform(1, 2, 3), uniform(2, 3)
    for result in (ops.max(a, b), ops.max(a, other=b)):
        assert_same_bits(result, torch.max(a, b))


def test_max__second_derivatives() -> None:
    x = uniform(1, 3, 4)
    one, other = (
        derivatives(lambda t: f(t * t, 1)[0], [t], uniform(2, 3).to(t.dtype), [uniform(3, 3, 4).to(t.dtype)])
        for f, t in ((ops.max, x), (torch.max, x.double()))
    )
    for a, b in zip(one, other):
        assert ((a - b).abs() <= 4 * 2.0**-24 * 4).all()  # values up to 4, at most 4 roundings


def test_max__second_derivative_of_all_is_a_share_of_each_tie() -> None:
    # max(x * x): to x, g / n * 2 x at the ties; its derivative as torch's in float64.
    x = torch.tensor([[1.0, -3.0, 3.0], [0.5, 3.0, -1.0]])
    tangent = uniform(3, 2, 3)
    for t in (x, x.double()):
        grad = torch.tensor(0.7, dtype=t.dtype)
        one, other = (
            derivatives(lambda v, f=f: f(v * v), [t], grad, [tangent.to(t.dtype)])  # type: ignore[misc]
            for f in (ops.max, torch.max)
        )
        for a, b in zip(one, other):
            assert a.dtype == t.dtype
            assert ((a - b).abs() <= 12 * torch.finfo(t.dtype).eps / 2 * 8).all()  # values up to 8, 6 roundings each
    nan = torch.tensor([1.0, NAN, NAN], requires_grad=True)
    weight = torch.tensor(1.0, requires_grad=True)
    (grad,) = torch.autograd.grad(ops.max(nan), nan, weight, create_graph=True)
    (back,) = torch.autograd.grad(grad, weight, torch.tensor([8.0, 3.0, 4.0]))
    assert back.item() == 3.5


def test_max__of_no_rows() -> None:
    values, indices = ops.max(torch.ones(0, 3), 1)
    assert values.shape == indices.shape == (0,) and indices.dtype == torch.int64
    assert ops.max(torch.ones(2, 0, 3), -1).values.shape == (2, 0)


def test_max__zero_dimensions() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    values, indices = ops.max(x, 0)
    assert values.item() == 3 and indices.item() == 0 and not indices.requires_grad
    values.backward()
    assert x.grad is not None and x.grad.item() == 1
    assert ops.max(x, -1, True).values.shape == ()


def test_max__layout_does_not_change_the_bits() -> None:
    x = uniform(1, 6, 4)
    for layout in (x.t(), x[::2, 1:], x[:1].expand(5, 4), torch._neg_view(x), x[:, :1].expand(6, 5)):
        dense = layout.resolve_neg().contiguous()
        assert_same_bits(ops.max(layout), ops.max(dense))
        for dim in (0, 1):
            assert_same_bits(ops.max(layout, dim), ops.max(dense, dim))


def test_max__forbidden_rewrite_comparison_only() -> None:
    # "a if a > b else b" loses a NaN on one side; the index must be the first NaN's.
    x = torch.tensor([1.0, NAN, 5.0, NAN])
    assert ops.max(x).isnan() and ops.max(x, 0).indices.item() == 1
    assert ops.max(x.flip(0), 0).indices.item() == 0


def test_max__forbidden_rewrite_start_from_minus_infinity_or_zero() -> None:
    x = torch.tensor([[-float("inf")] * 3, [-1.0, -2.0, -1.0]])
    assert ops.max(x, 1).indices.tolist() == [0, 0]
    assert ops.max(x, 1).values.tolist() == [-float("inf"), -1.0]


def test_max__rejects_no_elements() -> None:
    for shape, args in (((0,), ()), ((2, 0), ()), ((0,), (0,)), ((2, 0, 3), (1,)), ((2, 0), (-1,))):
        x = torch.ones(shape)
        assert_rejected(
            lambda: ops.max(x, *args), ValueError, "max: input", tensors=(x,), by_torch=lambda: torch.max(x, *args)
        )
    assert ops.max(torch.ones(1)).item() == 1


@pytest.mark.parametrize("dim", [2, -3])
def test_max__rejects_dimension(dim: int) -> None:
    x = uniform(1, 2, 3)
    assert_rejected(
        lambda: ops.max(x, dim), IndexError, f"max: dim is {dim}", tensors=(x,), by_torch=lambda: torch.max(x, dim)
    )


@pytest.mark.parametrize("dim", [(0, 1), (0,), [], True, 1.0, "a"])
def test_max__rejects_types(dim: Any) -> None:
    x = uniform(1, 2, 3)
    assert_rejected(lambda: ops.max(x, dim), TypeError, "max: dim", tensors=(x,), by_torch=lambda: torch.max(x, dim))
    assert_rejected(lambda: ops.max(x, 0, 1), TypeError, "max: keepdim")
    assert_rejected(lambda: ops.max(2.0), TypeError, "max: input")


def test_max__rejects_dtypes() -> None:
    dtype = torch.complex64
    x = torch.ones(2, 3, dtype=dtype)
    for args in ((), (1,), (x,), (x.float(),)):
        assert_rejected(lambda: ops.max(x, *args), TypeError, "max", str(dtype).removeprefix("torch."), tensors=(x,))
