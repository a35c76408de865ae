"""What is particular to conv2d: every option against torch, 1 output, layouts, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_multilinear, assert_rejected

theirs = torch.nn.functional.conv2d
PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))
ONE_OR_TWO = st.one_of(st.integers(1, 3), PAIR, PAIR.map(list))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    batch=st.integers(0, 3),
    per_group=st.integers(1, 2),
    out_per_group=st.integers(1, 2),
    groups=st.integers(1, 3),
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    kernel=PAIR,
    stride=ONE_OR_TWO,
    dilation=ONE_OR_TWO,
    padding=st.one_of(st.integers(0, 3), PAIR, st.just("valid")),
    bias=st.booleans(),
    batched=st.booleans(),
)
def test_conv2d__agrees_with_torch(
    batch: int,
    per_group: int,
    out_per_group: int,
    groups: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: Any,
    dilation: Any,
    padding: Any,
    bias: bool,
    batched: bool,
) -> None:
    x = uniform(1, batch, per_group * groups, *size) if batched else uniform(1, per_group * groups, *size)
    w = uniform(2, out_per_group * groups, per_group, *kernel)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    try:
        shape = theirs(x.double(), w.double(), **options).shape
    except RuntimeError:
        assume(False)
    tensors = [x, w, *([uniform(3, len(w))] if bias else [])]
    terms = w[0].numel() + len(w) * kernel[0] * kernel[1] + max(int(np.prod(shape)), 1)
    assert_multilinear(
        lambda *t: ops.conv2d(*t, **options), lambda *t: theirs(*t, **options), tensors, terms + 2, uniform(4, *shape)
    )


@pytest.mark.parametrize("kernel", [(2, 2), (3, 2), (1, 4), (3, 3)])
@pytest.mark.parametrize("dilation", [1, 2, (1, 3)])
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_conv2d__padding_same(kernel: tuple[int, int], dilation: Any) -> None:
    for shape in ((2, 2, 7, 8), (2, 7, 8)):
        tensors = [uniform(1, *shape), uniform(2, 3, 2, *kernel), uniform(3, 3)]
        output = (*shape[:-3], 3, 7, 8)
        assert_multilinear(
            lambda *t: ops.conv2d(*t, padding="same", dilation=dilation),
            lambda *t: theirs(*t, padding="same", dilation=dilation),
            tensors,
            200,
            uniform(4, *output),
            second=False,
        )


@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize("kernel", [1, 3])
def test_conv2d__one_output(batch: int, kernel: int) -> None:
    tensors = [uniform(1, batch, 2, 3, 3), uniform(2, 1, 2, kernel, kernel), uniform(3, 1)]
    side = 4 - kernel
    assert_multilinear(ops.conv2d, theirs, tensors, 60, uniform(4, batch, 1, side, side))


def test_conv2d__no_channels_gives_the_bias() -> None:
    # torch returns a tensor of 0 channels here, and of the batch's gradients none.
    bias = uniform(1, 6).requires_grad_()
    output = ops.conv2d(torch.ones(2, 0, 7, 8), torch.ones(6, 0, 3, 3), bias)
    assert_same_bits(output, bias[None, :, None, None].expand(2, 6, 5, 6))


def test_conv2d__accepts_what_torch_accepts() -> None:
    x, w = uniform(1, 2, 4, 7, 8), uniform(2, 6, 4, 3, 3)
    expected = ops.conv2d(x, w, None, (2, 2), (1, 1))
    for two, one in [
        ([2], (1,)),
        (torch.Size([2, 2]), torch.Size([1, 1])),
        (np.int64(2), np.int64(1)),
        (torch.tensor(2), 1),
    ]:
        assert_same_bits(ops.conv2d(x, w, stride=two, padding=one), expected)


def test_conv2d__layout_does_not_change_the_bits() -> None:
    x, w, grad = uniform(1, 2, 4, 5, 6), uniform(2, 3, 4, 3, 3), uniform(3, 2, 3, 3, 4)
    layouts = (
        lambda t: t,
        lambda t: t.contiguous(memory_format=torch.channels_last),
        lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
        lambda t: torch.stack([t, t], -1)[..., 1],
    )
    results = []
    for layout in layouts:
        leaves = [layout(t).requires_grad_() for t in (x, w)]
        output = ops.conv2d(*leaves, padding=0)
        results.append([output, *torch.autograd.grad(output, leaves, layout(grad))])
    for result in results[1:]:
        assert_same_bits(result, results[0])
    assert_same_bits(ops.conv2d(x[:1].expand(2, -1, -1, -1), w)[1], ops.conv2d(x[0], w))


def test_conv2d__an_image_does_not_depend_on_the_others() -> None:
    x, w = uniform(1, 5, 3, 6, 6), uniform(2, 4, 3, 3, 3)
    for i in range(5):
        assert_same_bits(ops.conv2d(x, w)[i : i + 1], ops.conv2d(x[i : i + 1], w))


def test_conv2d__forbidden_rewrite_multiply_then_add() -> None:
    x = torch.tensor([-1.0, 1 + 2.0**-12]).reshape(1, 1, 1, 2)
    w = torch.tensor([1 + 2.0**-11, 1 + 2.0**-12]).reshape(1, 1, 1, 2)
    assert ops.conv2d(x, w).item() == 2.0**-24


def test_conv2d__forbidden_rewrite_bias_as_start_of_the_chain() -> None:
    ones = torch.ones(1, 1, 1, 2)
    assert ops.conv2d(ones, ones, torch.tensor([2.0**24])).item() == 2.0**24 + 2


X, W = (2, 4, 7, 8), (6, 4, 3, 3)
BAD = [
    (X, (6, 3, 3, 3), {}, "input.shape[1] is 4"),
    (X, (6, 2, 3, 3), {}, "input.shape[1]"),
    (X, (6, 2, 3, 3), {"groups": 4}, "input.shape[1]"),
    (X, (5, 2, 3, 3), {"groups": 2}, "weight.shape[0] is 5"),
    (X, W, {"groups": 0}, "groups is 0"),
    (X, W, {"groups": -1}, "groups is -1"),
    (X, W, {"stride": 0}, "stride is (0, 0)"),
    (X, W, {"stride": (1, -1)}, "stride is (1, -1)"),
    (X, W, {"padding": -1}, "padding is (-1, -1)"),
    (X, W, {"dilation": 0}, "dilation is (0, 0)"),
    (X, W, {"stride": (1, 2, 3)}, "stride is (1, 2, 3)"),
    (X, W, {"stride": []}, "stride is []"),
    (X, W, {"dilation": 4}, "height 9 > 7"),
    (X, (6, 4, 8, 3), {}, "height 8 > 7"),
    (X, (6, 4, 3, 9), {}, "width 9 > 8"),
    ((2, 4, 2, 2), W, {}, "height 3 > 2"),
    ((0, 4, 2, 2), W, {}, "height 3 > 2"),
    (X, (6, 4, 0, 3), {}, "weight height is 0"),
    ((2, 4, 0, 8), W, {"padding": 2}, "input height is 0"),
    (X, (0, 4, 3, 3), {}, "weight.shape[0] is 0"),
    ((7, 8), W, {}, "input.dim() is 2"),
    ((1, 2, 4, 7, 8), W, {}, "input.dim() is 5"),
    (X, (6, 4, 3), {}, "weight.dim() is 3"),
]


@pytest.mark.parametrize(("x", "w", "options", "words"), BAD)
def test_conv2d__rejects_geometry(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], words: str) -> None:
    a, b = uniform(1, *x), uniform(2, *w)
    assert_rejected(
        lambda: ops.conv2d(a, b, **options),
        ValueError,
        "conv2d: ",
        words,
        tensors=(a, b),
        by_torch=lambda: theirs(a, b, **options),
    )
    assert ops.conv2d(uniform(1, *X), uniform(2, *W)).shape == (2, 6, 5, 6)


@pytest.mark.parametrize("bias", [(5,), (1,), (), (1, 6), (0,)])
def test_conv2d__rejects_bias(bias: tuple[int, ...]) -> None:
    t = (uniform(1, *X), uniform(2, *W), uniform(3, *bias))
    assert_rejected(lambda: ops.conv2d(*t), ValueError, "conv2d: bias", tensors=t, by_torch=lambda: theirs(*t))


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 1.0},
        {"stride": True},
        {"stride": None},
        {"stride": "a"},
        {"padding": 1.5},
        {"padding": None},
        {"dilation": (1.0, 2)},
        {"groups": None},
        {"groups": 2.0},
        {"groups": True},
        {"stride": torch.tensor([1, 1])},
    ],
)
def test_conv2d__rejects_types_of_options(options: dict[str, Any]) -> None:
    x, w = uniform(1, *X), uniform(2, *W)
    (name,) = options
    assert_rejected(lambda: ops.conv2d(x, w, **options), TypeError, f"conv2d: {name}", tensors=(x, w))


def test_conv2d__unsupported_paddings() -> None:
    x, w = uniform(1, *X), uniform(2, *W)
    for options, words in (({"padding": "same", "stride": 2}, "stride"), ({"padding": "full"}, "'full'")):
        assert_rejected(
            lambda: ops.conv2d(x, w, **options),
            UnsupportedError,
            "conv2d: padding",
            words,
            tensors=(x, w),
            by_torch=lambda: theirs(x, w, **options),
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.complex64])
@pytest.mark.parametrize("which", range(3))
def test_conv2d__rejects_dtypes_and_devices(dtype: torch.dtype, which: int) -> None:
    good = [uniform(1, *X), uniform(2, *W), uniform(3, 6)]
    bad = [t.to(dtype) if i == which else t for i, t in enumerate(good)]
    assert_rejected(lambda: ops.conv2d(*bad), TypeError, "conv2d", str(dtype).removeprefix("torch."), tensors=bad)
    moved = [t.to("meta") if i == which else t for i, t in enumerate(good)]
    assert_rejected(lambda: ops.conv2d(*moved), ValueError, "conv2d", "meta", "cpu")
