"""max_pool2d and its backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ANY_CONTRACT, ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import UnsupportedError, check, check_dim, check_dtype, check_size
from repdl.ops.common import check_index, places
from repdl.ops.declare import public
from repdl.ops.indexing.gather import elements
from repdl.ops.pooling._windows import DOC, check_elements
from repdl.registry import as_pair, computes, define, functions as _ops
from repdl.tensors import layout

__all__ = ["max_pool2d"]


def pooled_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Number of windows on a side of length `size`; with `ceil_mode`, a last one that is cut
    counts if it starts inside the input or its left padding."""
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    n = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    return n - 1 if ceil_mode and (n - 1) * stride >= size + padding else n


def _shape(
    input: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[int]:
    sides = [pooled_size(input[2 + i], kernel_size[i], stride[i], padding[i], dilation[i], ceil_mode) for i in (0, 1)]
    return [input[0], input[1], *sides]


def _check_windows(side: str, size: int, n: int, kernel: int, stride: int, padding: int, dilation: int) -> None:
    """Raise for a window whose taps all fall into the padding, which only dilation makes possible."""
    for start in range(-padding, 0, stride):
        if (start + padding) // stride >= n:
            break
        taps = -(start // dilation)  # before the first one that is not negative
        if taps >= kernel or start + taps * dilation >= size:
            raise UnsupportedError(
                f"max_pool2d: a window has no element of the input: it starts at {start} in {side}, with kernel "
                f"{kernel}, dilation {dilation} and input size {size}; expected one at least; use less padding"
            )


def _check(
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> None:
    check_dim("max_pool2d", 4, input=input)
    at_least_one = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation}
    for name, values, least in (*((k, v, 1) for k, v in at_least_one.items()), ("padding", padding, 0)):
        check("max_pool2d", len(values) == 2, lambda: f"{name} has {len(values)} values, expected 2 (height, width)")
        check("max_pool2d", min(values) >= least, lambda: f"{name} is {tuple(values)}, expected at least {least}")
    check_elements("max_pool2d", input, 2)
    for side, k, p, d in zip(("height", "width"), kernel_size, padding, dilation):
        extent = d * (k - 1) + 1
        half = extent // 2
        check("max_pool2d", p <= half, lambda: f"padding is {p} in {side}, expected at most half the kernel, {half}")
    for side, n in zip(("height", "width"), _shape(input.shape, kernel_size, stride, padding, dilation, ceil_mode)[2:]):
        check(
            "max_pool2d",
            n > 0,
            lambda: (
                f"input {tuple(input.shape[2:])} is smaller than the kernel {tuple(kernel_size)} in {side}; "
                f"expected a smaller kernel or dilation, or more padding"
            ),
        )
        i = 0 if side == "height" else 1
        if padding[i] and dilation[i] > 1:
            _check_windows(side, input.shape[2 + i], n, kernel_size[i], stride[i], padding[i], dilation[i])


def _fake(
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    shape = _shape(input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    kept = layout.images(shape, input)
    return kept.empty(input), kept.empty(input, torch.int64)


define(
    "max_pool2d",
    "(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) "
    "-> (Tensor output, Tensor indices)",
    check=_check,
    fake=_fake,
    gradients={
        "input": lambda g, indices, input_shape, input_format: _ops.max_pool2d_backward(
            g, indices, input_shape[2:]
        ).contiguous(memory_format=input_format)
    },
    dtypes=Dtypes(),
)


def _check_backward(op: str, grad: Tensor, indices: Tensor, input_size: Sequence[int]) -> None:
    check_dtype(op, (torch.int64,), indices=indices)
    check_dim(op, 4, grad=grad)
    check_size(op, "indices.shape", indices.shape, grad.shape, "grad.shape")
    check(op, len(input_size) == 2, lambda: f"input_size has {len(input_size)} values, expected 2 (height, width)")


def _at(g: Tensor, indices: Tensor) -> Tensor:
    planes = g.flatten(2)
    at = places(indices.flatten(2), 2, planes.shape)
    return elements(planes, at, ANY_CONTRACT).reshape(indices.shape)


define(
    "max_pool2d_backward",
    "(Tensor grad, Tensor indices, int[] input_size) -> Tensor",
    check=_check_backward,
    check_values=lambda op, indices, input_size: check_index(op, indices, math.prod(input_size), name="indices"),
    fake=lambda grad, input_size: grad.new_empty((*grad.shape[:2], *input_size)),
    gradients={"grad": _at},
    dtypes=Dtypes(integers=("indices",)),
    family="max_pool2d",
)


@public("max_pool2d", sides=2, doc=DOC)
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor | tuple[Tensor, Tensor]:
    op = "max_pool2d"
    check_dim(op, (3, 4), input=input)
    kernel = as_pair(op, "kernel_size", kernel_size)
    default = stride is None or (isinstance(stride, (list, tuple)) and not stride)
    strides = kernel if default else as_pair(op, "stride", stride)
    batch = input if input.dim() == 4 else input.unsqueeze(0)
    output, indices = _ops.max_pool2d(
        batch, kernel, strides, as_pair(op, "padding", padding), as_pair(op, "dilation", dilation), ceil_mode
    )
    if input.dim() == 3:
        output, indices = output.squeeze(0), indices.squeeze(0)
    return (output, indices) if return_indices else output


computes("max_pool2d_with_indices", given={"return_indices": True})(max_pool2d)
