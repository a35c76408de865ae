"""What is particular to max_pool2d: every option against torch, ties, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected, assert_within, derivatives, gamma

theirs = torch.nn.functional.max_pool2d
PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))
ONE_OR_TWO = st.one_of(st.integers(1, 3), PAIR, PAIR.map(list))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lead=st.sampled_from([(0, 2), (1, 1), (2, 3), (2,)]),
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    kernel=ONE_OR_TWO,
    stride=st.one_of(st.none(), ONE_OR_TWO),
    dilation=ONE_OR_TWO,
    padding=st.one_of(st.integers(0, 1), st.tuples(st.integers(0, 1), st.integers(0, 1))),
    ceil_mode=st.booleans(),
    coarse=st.booleans(),
)
def test_max_pool2d__agrees_with_torch(
    lead: tuple[int, ...],
    size: tuple[int, int],
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    ceil_mode: bool,
    coarse: bool,
) -> None:
    x = uniform(1, *lead, *size)
    x = (x * 2).round() + 0.0 if coarse else x  # many equal elements
    options = (kernel, stride, padding, dilation, ceil_mode)
    try:
        expected = theirs(x, *options, return_indices=True)
    except RuntimeError:
        assume(False)
    if (expected[0] == -torch.inf).any() or (not x.numel() and dilation != 1):
        assume(False)  # a window without elements has a test of its own
    assert_same_bits(ops.max_pool2d(x, *options, return_indices=True), expected)
    assert_same_bits(ops.max_pool2d(x, *options), expected[0])
    grad, tangent = uniform(2, *expected[0].shape), uniform(3, *x.shape)
    actual = derivatives(lambda t: ops.max_pool2d(t * t, *options), [x], grad, [tangent])
    exact = derivatives(lambda t: theirs(t * t, *options), [x.double()], grad.double(), [tangent.double()])
    # Up to 9 windows share an element; products of up to 3 factors at most 1, and the factor 2.
    for i, (a, e) in enumerate(zip(actual, exact)):
        assert_within(a, e, gamma(9 + 4) * 9 * 2 * 2, f"{options} {i}")


def test_max_pool2d__accepts_what_torch_accepts() -> None:
    x = uniform(1, 2, 3, 6, 6)
    expected = ops.max_pool2d(x, 2)
    for kernel, stride in [
        ((2,), []),
        ([2, 2], ()),
        (torch.Size([2, 2]), None),
        (np.int64(2), np.int64(2)),
        (torch.tensor(2), 2),
    ]:
        assert_same_bits(ops.max_pool2d(x, kernel, stride), expected)


def test_max_pool2d__indices_have_no_gradient() -> None:
    values, indices = ops.max_pool2d(uniform(1, 1, 4, 4).requires_grad_(), 2, return_indices=True)
    assert values.requires_grad and not indices.requires_grad and indices.dtype == torch.int64


@pytest.mark.parametrize(
    ("size", "options"),
    [((1, 1), (2, 2, 1, 2)), ((1, 3), ((1, 2), 1, (0, 1), (1, 4))), ((3, 2), ((2, 1), 1, (1, 0), (4, 1)))],
)
def test_max_pool2d__window_without_elements_is_refused(size: tuple[int, int], options: Any) -> None:
    # torch gives -inf and an index outside the plane, which its backward writes to.
    for lead in ((1, 1), (0, 1)):
        x = uniform(1, *lead, *size)
        assert_rejected(lambda: ops.max_pool2d(x, *options), UnsupportedError, "max_pool2d: a window", tensors=(x,))
    assert ops.max_pool2d(uniform(1, 1, 1, 4, 4), 2, 1, 1, 2).shape == (1, 1, 4, 4)


def test_max_pool2d__special_values() -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[[-inf, -inf, nan, 1.0], [-inf, -inf, 2.0, nan]]])
    values, indices = ops.max_pool2d(x, 2, return_indices=True)
    assert values[0, 0, 0] == -inf and values[0, 0, 1].isnan()
    assert torch.equal(indices, theirs(x, 2, return_indices=True)[1])


def test_max_pool2d__layout_does_not_change_the_bits() -> None:
    x = uniform(1, 2, 3, 6, 5)
    for layout in (
        x.transpose(2, 3),
        x[:, :, ::2, 1:],
        x[:1].expand(4, 3, 6, 5),
        torch._neg_view(x),
        x.to(memory_format=torch.channels_last),
        x[..., :1].expand(2, 3, 6, 5),
    ):
        dense = layout.resolve_neg().contiguous()
        assert_same_bits(
            ops.max_pool2d(layout, 2, 1, 1, return_indices=True), ops.max_pool2d(dense, 2, 1, 1, return_indices=True)
        )


def test_max_pool2d__forbidden_rewrite_padding_with_zeros() -> None:
    assert ops.max_pool2d(torch.full((1, 2, 2), -1.0), 2, 2, 1).max().item() == -1


def test_max_pool2d__forbidden_rewrite_last_of_equal_elements() -> None:
    assert ops.max_pool2d(torch.ones(1, 4, 4), 3, 1, return_indices=True)[1].flatten().tolist() == [0, 1, 4, 5]


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ((1, 2, 5, 5), {"kernel_size": 6}, "smaller than the kernel"),
    ((1, 2, 5, 5), {"kernel_size": 3, "dilation": 3}, "smaller"),
    ((0, 2, 5, 5), {"kernel_size": 6}, "smaller than the kernel"),
    ((1, 2, 5, 5), {"kernel_size": 0}, "kernel_size is (0, 0)"),
    ((1, 2, 5, 5), {"kernel_size": -1}, "kernel_size is (-1, -1)"),
    ((1, 2, 5, 5), {"kernel_size": (1, 2, 3)}, "kernel_size is (1, 2, 3)"),
    ((1, 2, 5, 5), {"kernel_size": 2, "stride": 0}, "stride is (0, 0)"),
    ((1, 2, 5, 5), {"kernel_size": 2, "stride": -1}, "stride"),
    ((1, 2, 5, 5), {"kernel_size": 2, "padding": 2}, "padding is 2"),
    ((1, 2, 5, 5), {"kernel_size": 2, "padding": -1}, "padding is (-1, -1)"),
    ((1, 2, 5, 5), {"kernel_size": 2, "dilation": 0}, "dilation is (0, 0)"),
    ((5, 5), {"kernel_size": 2}, "input.dim() is 2"),
    ((1, 1, 2, 5, 5), {"kernel_size": 2}, "input.dim() is 5"),
    ((1, 2, 0, 5), {"kernel_size": 2, "padding": 1}, "input.shape"),
    ((1, 0, 5, 5), {"kernel_size": 2}, "input.shape"),
    ((0, 5, 5), {"kernel_size": 2}, "input.shape"),
]


@pytest.mark.parametrize(("shape", "options", "words"), BAD)
def test_max_pool2d__rejects(shape: tuple[int, ...], options: dict[str, Any], words: str) -> None:
    x = uniform(1, *shape)
    assert_rejected(
        lambda: ops.max_pool2d(x, **options),
        ValueError,
        "max_pool2d: ",
        words,
        tensors=(x,),
        by_torch=lambda: theirs(x, **options),
    )
    assert ops.max_pool2d(uniform(1, 1, 2, 5, 5), 2).shape == (1, 2, 2, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": None},
        {"kernel_size": 2.0},
        {"kernel_size": True},
        {"kernel_size": "a"},
        {"stride": 1.0},
        {"padding": None},
        {"padding": True},
        {"dilation": (1.0, 1)},
        {"ceil_mode": 1},
        {"return_indices": None},
    ],
)
def test_max_pool2d__rejects_types(options: dict[str, Any]) -> None:
    x = uniform(1, 1, 2, 5, 5)
    (name,) = options
    assert_rejected(
        lambda: ops.max_pool2d(x, **{"kernel_size": 2, **options}), TypeError, f"max_pool2d: {name}", tensors=(x,)
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_max_pool2d__rejects_dtypes(dtype: torch.dtype) -> None:
    x = torch.ones(1, 4, 4, dtype=dtype)
    assert_rejected(
        lambda: ops.max_pool2d(x, 2), TypeError, "max_pool2d", str(dtype).removeprefix("torch."), tensors=(x,)
    )
