"""unfold, windows as columns, and fold, the sum of windows where they overlap: each the derivative of the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import check, check_dim, check_dtype, check_size
from repdl.ops.common import to_device
from repdl.ops.declare import public
from repdl.ops.indexing.scatter import index_add
from repdl.ops.pooling._windows import check_least, per_side, rows, select, side, table
from repdl.registry import computes, functions as _ops

__all__ = ["fold", "unfold"]

Ints = int | Sequence[int]


def _options(
    op: str, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> tuple[list[int], list[int], list[int], list[int]]:
    kernel, dilations = per_side(op, "kernel_size", kernel_size, 2), per_side(op, "dilation", dilation, 2)
    paddings, steps = per_side(op, "padding", padding, 2), per_side(op, "stride", stride, 2)
    check_least(op, 1, kernel_size=kernel, dilation=dilations, stride=steps)
    check_least(op, 0, padding=paddings)
    return kernel, dilations, paddings, steps


def _counts(
    op: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> list[int]:
    """How many windows fit each padded side."""
    spans = [n + 2 * p - d * (k - 1) - 1 for n, k, d, p in zip(sizes, kernel, dilation, padding)]
    check(
        op,
        min(spans) >= 0,
        lambda: (
            f"kernel_size is {tuple(kernel)} with dilation {tuple(dilation)}, expected windows of at most the size "
            f"{tuple(sizes)} with padding {tuple(padding)}"
        ),
    )
    return [span // s + 1 for span, s in zip(spans, stride)]


def _windows(
    padded: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    stride: Sequence[int],
    device: torch.device,
) -> Tensor:
    """The rows of each window on the padded sides, all of which exist."""
    sides = [side(n, c, k, s, 0, d, device) for n, c, k, s, d in zip(padded, counts, kernel, stride, dilation)]
    return rows(sides, padded)[0]


@public("index_sum")
def unfold(
    input: Tensor,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Windows as columns: `(N, C, H, W) -> (N, C * KH * KW, L)`, any floating-point dtype; bits are moved.

    L windows and the elements of each in row-major order. The derivative is `fold`.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, dilation, padding, stride: one integer or (height, width); padding is by zeros.

    Raises:
        ShapeError: if a window does not fit the padded input, or an option is out of range.
    """
    op = "unfold"
    check_dim(op, (3, 4), input=input)
    check_dtype(op, ALL, input=input)
    kernel, dilations, paddings, steps = _options(op, kernel_size, dilation, padding, stride)
    channels, *sizes = input.shape[-3:]
    check(op, all(input.shape[-3:]), lambda: f"input.shape is {tuple(input.shape)}, expected 0 for the batch only")
    counts = _counts(op, sizes, kernel, dilations, paddings, steps)
    padded = [n + 2 * p for n, p in zip(sizes, paddings)]
    place = _windows(padded, counts, kernel, dilations, steps, input.device)
    wide = torch.nn.functional.pad(input, (paddings[1], paddings[1], paddings[0], paddings[0]))
    batch = math.prod(input.shape[:-3])
    columns = select(table(wide, 2), place, contract).view(*place.shape, batch, channels)
    output = columns.permute(2, 3, 1, 0).reshape(batch, channels * place.shape[1], place.shape[0])
    return output if input.dim() == 4 else output.squeeze(0)


@public("index_sum")
def fold(
    input: Tensor,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """The sum of windows where they overlap: `(N, C * KH * KW, L) -> (N, C, H, W)`, any floating-point dtype.

    An element is the sum of those that lie on it, in ascending order of windows; without any it is 0.

    Args:
        input: (N, C * KH * KW, L) or (C * KH * KW, L), as `unfold` returns it.
        output_size: (H, W), or one integer.
        kernel_size, dilation, padding, stride: as of `unfold`.

    Raises:
        ShapeError: if the input is not of the size that the options say, or an option is out of range.
    """
    op = "fold"
    check_dim(op, (2, 3), input=input)
    check_dtype(op, ALL, input=input)
    kernel, dilations, paddings, steps = _options(op, kernel_size, dilation, padding, stride)
    sizes = per_side(op, "output_size", output_size, 2)
    check_least(op, 1, output_size=sizes)
    counts = _counts(op, sizes, kernel, dilations, paddings, steps)
    many, windows = math.prod(kernel), math.prod(counts)
    check(
        op,
        input.shape[-2] % many == 0 and input.shape[-2] > 0,
        lambda: f"input.shape[-2] is {input.shape[-2]}, expected a multiple of {many} (= kernel_size), 1 at least",
    )
    check_size(op, "input.shape[-1]", input.shape[-1], windows, f"{counts[0]} * {counts[1]} windows")
    padded = [n + 2 * p for n, p in zip(sizes, paddings)]
    place = _windows(padded, counts, kernel, dilations, steps, input.device)
    batch, channels = math.prod(input.shape[:-2]), input.shape[-2] // many
    terms = input.reshape(batch, channels, many, windows).permute(3, 2, 0, 1)
    total = _ops.index_sum(
        terms.reshape(windows * many, batch * channels), place.reshape(-1), math.prod(padded), contract
    )
    output = total.t().reshape(batch, channels, *padded)
    output = output.narrow(2, paddings[0], sizes[0]).narrow(3, paddings[1], sizes[1]).contiguous()
    return output if input.dim() == 3 else output.squeeze(0)


@computes("unfold_backward")
def _aten_unfold_backward(grad_in: Tensor, input_sizes: Any, dim: int, size: int, step: int) -> Tensor:
    if not input_sizes:
        return grad_in.reshape(())
    dim = dim % len(input_sizes)
    places = torch.arange(grad_in.shape[dim]).unsqueeze(1) * step + torch.arange(size)  # of the elements of a window
    windows = grad_in.movedim(-1, dim + 1).flatten(dim, dim + 1)
    return index_add(grad_in.new_zeros(input_sizes), dim, to_device(places.reshape(-1), grad_in.device), windows)


computes("im2col")(unfold)
computes("col2im")(fold)
