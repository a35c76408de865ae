"""What is particular to sum and mean: dims, keepdim, empty tensors, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_multilinear, assert_rejected

BOTH = pytest.mark.parametrize("op", ["sum", "mean"])


@st.composite
def reductions(draw: Any) -> tuple[list[int], Any]:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    high = max(len(shape), 1)
    one = st.integers(-high, high - 1)
    many = st.lists(st.integers(0, high - 1), unique=True, max_size=high).flatmap(
        lambda dims: st.tuples(*(st.sampled_from([d, d - high]) for d in dims))
    )
    return shape, draw(st.one_of(st.none(), one, many, many.map(list), many.map(torch.Size)))


@BOTH
@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=reductions(), keepdim=st.booleans())
def test_sum__agrees_with_torch(op: str, case: tuple[list[int], Any], keepdim: bool) -> None:
    shape, dim = case
    x = uniform(1, *shape)
    theirs = getattr(torch, op)
    output = theirs(x, dim=dim, keepdim=keepdim)
    assert_multilinear(
        lambda t: getattr(ops, op)(t, dim, keepdim),
        lambda t: theirs(t, dim=dim, keepdim=keepdim),
        [x],
        x.numel() + 3,
        uniform(2, *output.shape),
        second=x.numel() > 0,
    )


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1023, 1024, 1025, 5000])
def test_sum__long(n: int) -> None:
    for shape in ((n,), (2, n), (n, 3)):
        dim = shape.index(n)
        x = uniform(1, *shape)
        cotangent = uniform(2, *x.sum(dim).shape)
        assert_multilinear(lambda t: ops.sum(t, dim), lambda t: t.sum(dim), [x], n + 3, cotangent, second=False)


@BOTH
def test_sum__layout_does_not_change_the_bits(op: str) -> None:
    x = uniform(1, 6, 5, 4)
    for layout in (
        x.permute(2, 0, 1),
        x[::2, 1:],
        x[:, :1].expand(6, 9, 4),
        torch._neg_view(x),
        x.as_strided((4, 4), (1, 1)),
    ):
        for dim in (None, 0, 1, (0, 1)):
            assert_same_bits(getattr(ops, op)(layout, dim), getattr(ops, op)(layout.resolve_neg().contiguous(), dim))


@BOTH
def test_sum__a_numpy_or_tensor_integer_is_a_dimension(op: str) -> None:
    x = uniform(1, 2, 3)
    for dim in (np.int64(1), torch.tensor(1)):
        assert_same_bits(getattr(ops, op)(x, dim), getattr(ops, op)(x, 1))


def test_sum__empty() -> None:
    assert ops.sum(torch.ones(0)).item() == 0 and not torch.signbit(ops.sum(torch.ones(0)))
    assert ops.mean(torch.ones(0)).isnan()
    assert ops.mean(torch.ones(2, 0), 1).isnan().all()
    x = torch.ones(2, 0, requires_grad=True)
    ops.mean(x).backward()
    assert x.grad is not None and x.grad.shape == (2, 0)


def test_sum__forbidden_rewrite_shortcut_for_one_element() -> None:
    # A chain that starts from +0 turns -0 into +0: "the sum of one element is the element" is wrong.
    assert not torch.signbit(ops.sum(torch.tensor([-0.0])))


def test_sum__forbidden_rewrite_wider_accumulator() -> None:
    # In double, then rounded, the sum would be 1: in float32 lane 0 loses it.
    x = torch.zeros(129)
    x[0], x[64], x[128] = 2.0**25, 1.0, -(2.0**25)
    assert ops.sum(x).item() == 0


def test_mean__forbidden_rewrite_product_with_the_reciprocal() -> None:
    # 5 * fl(1 / 41) is one ulp away from fl(5 / 41) for some sums; find the first and hold it.
    n = torch.tensor(41.0)
    sums = torch.arange(1.0, 100.0)
    differ = sums[(sums / n) != (sums * (1 / n))]
    assert len(differ)
    for s in differ.tolist():
        x = torch.zeros(41)
        x[0] = s
        assert_same_bits(ops.mean(x), torch.tensor(s) / n)


@BOTH
@pytest.mark.parametrize(("shape", "dim"), [((2, 3), 2), ((2, 3), -3), ((2, 3), (0, 2)), ((), 1), ((), -2)])
def test_sum__rejects_dimension_that_does_not_exist(op: str, shape: tuple[int, ...], dim: Any) -> None:
    x = uniform(1, *shape)
    assert_rejected(
        lambda: getattr(ops, op)(x, dim),
        IndexError,
        f"{op}: dim is",
        tensors=(x,),
        by_torch=lambda: getattr(torch, op)(x, dim),
    )
    assert getattr(ops, op)(x).shape == ()


@BOTH
@pytest.mark.parametrize("dim", [(0, 0), (0, -2), [1, 1]])
def test_sum__rejects_dimension_named_twice(op: str, dim: Any) -> None:
    x = uniform(1, 2, 3)
    assert_rejected(
        lambda: getattr(ops, op)(x, dim),
        ValueError,
        f"{op}: dim",
        "once",
        tensors=(x,),
        by_torch=lambda: getattr(torch, op)(x, dim),
    )


@BOTH
@pytest.mark.parametrize("dim", [True, 1.0, "a", (1.0,), (None,), torch.tensor([0, 1])])
def test_sum__rejects_types(op: str, dim: Any) -> None:
    x = uniform(1, 2, 3)
    assert_rejected(lambda: getattr(ops, op)(x, dim), TypeError, f"{op}: dim", tensors=(x,))
    assert_rejected(lambda: getattr(ops, op)(x, 0, 1), TypeError, f"{op}: keepdim")
    assert_rejected(lambda: getattr(ops, op)([1.0]), TypeError, f"{op}: input")


@BOTH
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_sum__rejects_dtypes(op: str, dtype: torch.dtype) -> None:
    x = torch.ones(2, 3, dtype=dtype)
    if op == "mean" or dtype.is_complex:  # integers are summed: test_promotion.py
        assert_rejected(lambda: getattr(ops, op)(x), TypeError, op, str(dtype).removeprefix("torch."), tensors=(x,))
        assert_rejected(lambda: getattr(ops, op)(x.float(), dtype=dtype), UnsupportedError, f"{op}: dtype")
