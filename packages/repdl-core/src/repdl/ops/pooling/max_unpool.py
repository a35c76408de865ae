"""max_unpool: elements back at the places that they had as maxima; the others are 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import check, check_dim, check_dtype, check_size
from repdl.ops.common import as_index
from repdl.ops.declare import of_sides
from repdl.ops.indexing.scatter import replaced
from repdl.ops.pooling._windows import check_elements, check_least, per_side, strides
from repdl.registry import as_ints, computes

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]

Ints = int | Sequence[int]


def _unpool(
    dims: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Elements at the places that `indices` says, 0 elsewhere: `(N, C, {sides}) -> (N, C, {out})`, bits are moved.

    Any floating-point dtype. Of several elements for one place the last one in row-major order is there.

    Args:
        input: (N, C, {sides}) or (C, {sides}).
        indices: int64, of the shape of `input`, as max_pool{n}d returns them.
        kernel_size, stride, padding: those of max_pool{n}d.
        output_size: {out}, or those after (N, C); without it the smallest that the options give.

    Raises:
        ShapeError: if the shapes differ, or an option is out of range.
        OutOfRangeError: if an index is none of the output.
        DTypeError: if `input` is of no dtype of the contract, or `indices` not int64.
    """
    op = f"max_unpool{dims}d"
    check_dim(op, (dims + 1, dims + 2), input=input)
    check_dtype(op, ALL, input=input)
    check_dtype(op, (torch.int64,), indices=indices)
    check_size(op, "indices.shape", list(indices.shape), list(input.shape), "input.shape")
    kernel = per_side(op, "kernel_size", kernel_size, dims)
    step, padded = strides(op, stride, kernel), per_side(op, "padding", padding, dims)
    check_least(op, 1, stride=step)
    check_elements(op, input, dims)
    default = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(input.shape[-dims:], step, padded, kernel)]
    sizes = default if output_size is None else _given(op, output_size, default, step)
    check_least(op, 1, output_size=sizes)
    length = math.prod(sizes)
    at = as_index(op, indices, length, name="indices").reshape(-1, math.prod(input.shape[-dims:]))
    channels = torch.arange(at.shape[0], device=at.device).unsqueeze(1)
    place = torch.where(at < 0, -1, channels * length + at).reshape(-1)
    zeros = input.new_zeros((at.shape[0] * length, 1))
    return replaced(zeros, place, input.reshape(-1, 1), contract).view(*input.shape[:-dims], *sizes)


def _given(op: str, output_size: Sequence[int], default: Sequence[int], stride: Sequence[int]) -> list[int]:
    """The sides that `output_size` says, which are less than a stride from the default."""
    sizes = as_ints(op, "output_size", output_size)
    sizes = sizes[2:] if len(sizes) == len(default) + 2 else sizes
    check(
        op,
        len(sizes) == len(default),
        lambda: f"output_size has {len(output_size)} values, expected {len(default)} or {len(default) + 2}",
    )
    check(
        op,
        all(d - s < n < d + s for n, d, s in zip(sizes, default, stride)),
        lambda: f"output_size is {tuple(sizes)}, expected less than a stride from {tuple(default)}",
    )
    return sizes


max_unpool1d, max_unpool2d, max_unpool3d = of_sides(_unpool, "max_unpool", "index_sum")


def _aten_max_unpool(function: Callable[..., Any], dims: int) -> Callable[..., Any]:
    def unpool(input: Tensor, indices: Tensor, output_size: Any, stride: Any = None, padding: Any = None) -> Tensor:
        windows = [size - n + 1 for size, n in zip(output_size, input.shape[-dims:])]  # which give that size
        return function(input, indices, windows, 1)

    return unpool


computes("max_unpool2d")(_aten_max_unpool(max_unpool2d, 2))
computes("max_unpool3d")(_aten_max_unpool(max_unpool3d, 3))
