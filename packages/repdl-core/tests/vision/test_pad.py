"""What is particular to pad: modes against torch, gradients, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import OLDER, assert_multilinear, assert_rejected

theirs = torch.nn.functional.pad
MODES = ["constant", "reflect", "replicate", "circular"]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(shape=st.lists(st.integers(0, 4), min_size=1, max_size=4), mode=st.sampled_from(MODES), data=st.data())
def test_pad__agrees_with_torch(shape: list[int], mode: str, data: Any) -> None:
    pairs = data.draw(st.integers(0, len(shape)))
    amounts = data.draw(st.lists(st.integers(-2, 3), min_size=2 * pairs, max_size=2 * pairs))
    for n, left, right in zip(shape[::-1], amounts[::2], amounts[1::2]):
        # Circular padding by more than is left after the cut: there torch reads memory that nobody wrote.
        assume(mode != "circular" or max(left, right) <= n + min(left, 0) + min(right, 0))
    x = uniform(1, *shape)
    try:
        expected = theirs(x, amounts, mode)
    except (RuntimeError, ValueError, UnsupportedError):
        assume(False)
    assume((x.numel() and expected.numel()) or not OLDER)  # 2.6 mistakes some pads from and to nothing
    assert_same_bits(ops.pad(x, amounts, mode), expected)
    assert_same_bits(ops.pad(x, tuple(amounts), mode), expected)
    # An element is copied to at most 4**4 places.
    assert_multilinear(
        lambda t: ops.pad(t, amounts, mode),
        lambda t: theirs(t, amounts, mode),
        [x],
        256,
        uniform(2, *expected.shape),
        second=False,
    )


@pytest.mark.parametrize(("mode", "pad", "expected"), [
    ("reflect", (2, -1), [3, 2, 1, 2, 3]), ("reflect", (-1, 3), [2, 3, 4, 3, 2, 1]),
    ("replicate", (-2, 2), [3, 4, 4, 4]), ("replicate", (-1, -2), [2]),
    ("circular", (2, -1), [2, 3, 1, 2, 3]), ("circular", (-1, 2), [2, 3, 4, 2, 3]), ("circular", (-2, -2), []),
])  # fmt: skip
def test_pad__negative_pads_cut(mode: str, pad: tuple[int, int], expected: list[int]) -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]], requires_grad=True)
    result = ops.pad(x, pad, mode)
    assert result.tolist() == [expected] == theirs(x, pad, mode).tolist()
    (grad,) = torch.autograd.grad(result.sum(), x)
    assert grad.tolist() == [[expected.count(i) for i in range(1, 5)]]


@pytest.mark.parametrize("value", [0, 1.5, -1, True, float("inf"), float("nan"), None])
def test_pad__value(value: Any) -> None:
    x = uniform(1, 2, 3)
    assert_same_bits(ops.pad(x, (1, 2), value=value), theirs(x, (1, 2), value=value))


@pytest.mark.parametrize("mode", MODES)
def test_pad__layout_does_not_change_the_bits(mode: str) -> None:
    x = uniform(1, 2, 6, 5)
    for layout in (x.transpose(1, 2), x[:, ::2, 1:], x[:, :1].expand(2, 3, 5), torch._neg_view(x)):
        dense = layout.resolve_neg().contiguous()
        assert_same_bits(ops.pad(layout, (1, 2), mode), ops.pad(dense, (1, 2), mode))


def test_pad__forbidden_rewrite_gradient_in_another_order() -> None:
    # replicate: the gradients of the copies are added in the order of positions.
    x = torch.zeros(1, 1, 1, requires_grad=True)
    grad = torch.tensor([[[2.0**24, 1.0, 1.0]]])
    one = torch.autograd.grad(ops.pad(x, (1, 1), "replicate"), x, grad)[0]
    other = torch.autograd.grad(ops.pad(x, (1, 1), "replicate"), x, grad.flip(-1))[0]
    assert one.item() == 2.0**24 and other.item() == 2.0**24 + 2


def test_pad__forbidden_rewrite_constant_by_addition() -> None:
    # Adding the input to zeros would turn -0 into +0.
    assert torch.signbit(ops.pad(torch.tensor([-0.0]), (1, 1))).tolist() == [False, True, False]


BAD: list[tuple[Any, Any, str, str]] = [
    ((2, 3, 4), (1,), "constant", "pad has 1 values"),
    ((4,), (1, 1, 1, 1), "constant", "pad has 2 pairs"),
    ((), (1, 1), "constant", "pad"),
    ((2, 3, 4), (-3, -2), "constant", "(-3, -2)"),
    ((2, 3, 4), (-6, 3), "constant", "(-6, 3)"),
    ((2, 3, 4), (4, 0), "reflect", "(4, 0)"),
    ((2, 3, 4), (0, 4), "reflect", "(0, 4)"),
    ((2, 3, 4), (5, 0), "circular", "(5, 0)"),
    ((2, 3, 4), (-2, -2), "reflect", "(-2, -2)"),
    ((2, 3, 4), (-5, 1), "replicate", "(-5, 1)"),
    ((2, 3, 4), (-3, -2), "circular", "(-3, -2)"),
    ((2, 3, 0), (1, 1), "reflect", "pad"),
    ((2, 3, 0), (1, 1), "replicate", "pad"),
    ((2, 3, 0), (1, 1), "circular", "pad"),
    ((2, 3, 4), (1, 1), "x", "'x'"),
]


@pytest.mark.parametrize(("shape", "amounts", "mode", "words"), BAD)
def test_pad__rejects(shape: tuple[int, ...], amounts: Any, mode: str, words: str) -> None:
    x = uniform(1, *shape)
    assert_rejected(
        lambda: ops.pad(x, amounts, mode),
        ValueError,
        "pad: ",
        words,
        tensors=(x,),
        by_torch=lambda: theirs(x, amounts, mode),
    )
    assert ops.pad(uniform(1, 2, 3), (1, 1)).shape == (2, 5)


@pytest.mark.parametrize("amounts", [1, None, "ab", (1.0, 2), (True, 1), torch.tensor([1, 1])])
@pytest.mark.parametrize("mode", MODES)
def test_pad__rejects_types(amounts: Any, mode: str) -> None:
    x = uniform(1, 1, 2, 3)
    assert_rejected(lambda: ops.pad(x, amounts, mode), TypeError, "pad: pad", tensors=(x,))
    assert_rejected(lambda: ops.pad([1.0], (1, 1), mode), TypeError, "pad: input")


def test_pad__rejects_options() -> None:
    x = uniform(1, 1, 2, 3)
    assert_rejected(
        lambda: ops.pad(x, (1, 1), "reflect", 1.0),
        UnsupportedError,
        "pad: value",
        by_torch=lambda: theirs(x, (1, 1), "reflect", 1.0),
    )
    for value in ("a", 1j):
        assert_rejected(lambda: ops.pad(x, (1, 1), value=value), TypeError, "pad: value")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.pad(x, (1, 1), None), TypeError, "pad: mode")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("mode", MODES)
def test_pad__rejects_dtypes(dtype: torch.dtype, mode: str) -> None:
    x = torch.ones(1, 2, 3, dtype=dtype)
    assert_rejected(lambda: ops.pad(x, (1, 1), mode), TypeError, "pad", str(dtype).removeprefix("torch."), tensors=(x,))
    assert_rejected(lambda: ops.pad(torch.ones(2, 3).to_sparse(), (1, 1), mode), UnsupportedError, "pad", "layout")
