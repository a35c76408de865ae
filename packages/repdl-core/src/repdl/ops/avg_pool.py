"""Averages over windows: the sum of the elements that exist, in row-major order, divided once.

Windows side by side are parts of the input; others are rows of a table (`repdl.ops._windows`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from repdl import registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL
from repdl.errors import as_int, check, check_bool, check_dim, check_dtype, check_tensor
from repdl.ops._number import constant, floating
from repdl.ops._windows import (
    adaptive_side,
    check_least,
    per_side,
    rows,
    side,
    strides,
    table,
    untable,
    window_sums,
)
from repdl.ops.cast import narrowed, widened
from repdl.ops.max_pool2d import pooled_size
from repdl.replay import replayed

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
]

Tensor = torch.Tensor
Ints = int | Sequence[int]
_ops = registry.functions


FEW, MANY = 16, 1 << 14
"""Windows of up to so many elements, in an input of at least so many, are copied, a copy for each of these: sums over
short runs far from each other cost more. No bit depends on it."""


def _tiles(input: Tensor, counts: Sequence[int], kernel: Sequence[int]) -> tuple[Tensor, list[int]]:
    """`counts` windows of `kernel` elements side by side, a view of the input or a copy, and the dimensions of a
    window in it."""
    lead = input.dim() - len(counts)
    shape = list(input.shape[:lead])
    for d, (count, n) in enumerate(zip(counts, kernel)):
        input = input.narrow(lead + d, 0, count * n)
        shape += [count, n]
    view, inner = input.reshape(shape), list(range(lead + 1, len(shape), 2))
    if 1 < math.prod(kernel) <= FEW and input.numel() >= MANY:
        first = list(range(len(inner)))
        return view.movedim(inner, first).contiguous(), first
    return view, inner


def _products(columns: Sequence[Tensor]) -> Tensor:
    """The products of one number of each column, in row-major order, `(O, 1)`."""
    total = columns[0]
    for column in columns[1:]:
        total = (total.unsqueeze(1) * column).reshape(-1)
    return total.unsqueeze(1)


def _counts(
    counts: Sequence[int],
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    with_padding: bool,
    device: torch.device,
) -> Tensor:
    """How many elements each window has; with padding, those too, up to the end of the padded side."""
    columns = []
    for count, n, k, s, p in zip(counts, sizes, kernel, stride, padding):
        start = torch.arange(count, device=device) * s - p
        end = (start + k).clamp(max=n + p)
        columns.append(end - start if with_padding else end.clamp(max=n) - start.clamp(min=0))
    return _products(columns)


def _average(
    op: str,
    dims: int,
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    contract: str,
) -> Tensor:
    check_tensor(op, input=input)
    check_bool(op, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    check_dim(op, (dims + 1, dims + 2), input=input)
    check_dtype(op, ALL, input=input)
    kernel = per_side(op, "kernel_size", kernel_size, dims)
    step, padded = strides(op, stride, kernel), per_side(op, "padding", padding, dims)
    divisor = None if divisor_override is None else as_int(op, "divisor_override", divisor_override)
    check_least(op, 1, kernel_size=kernel, stride=step)
    check(
        op,
        all(0 <= p <= k // 2 for p, k in zip(padded, kernel)),
        lambda: f"padding is {tuple(padded)}, expected 0 to half of kernel_size = {tuple(kernel)}",
    )
    check(op, divisor != 0, "divisor_override is 0, expected another number")
    sizes = input.shape[-dims:]
    check(
        op, all(input.shape[-dims - 1 :]), lambda: f"input.shape is {tuple(input.shape)}, expected 0 for the batch only"
    )
    counts = [pooled_size(n, k, s, p, 1, ceil_mode) for n, k, s, p in zip(sizes, kernel, step, padded)]
    check(
        op,
        min(counts) > 0,
        lambda: f"kernel_size is {tuple(kernel)}, expected at most the size of the padded input, {tuple(sizes)}",
    )
    whole = all((c - 1) * s + k <= n for c, n, k, s in zip(counts, sizes, kernel, step)) and not any(padded)
    if whole and all(s == k or c == 1 for s, k, c in zip(step, kernel, counts)):
        windows, inner = _tiles(input, counts, kernel)
        if divisor is None:
            return _ops.mean(windows, inner, False, contract)  # type: ignore[no-any-return]
        storage, (wide,) = widened(windows)
        total = _ops.sum(wide, inner, False, contract)
        return narrowed(_ops.div(total, constant(divisor, total.dtype, total.device), contract), storage)
    storage, (wide,) = widened(input)
    sides = [side(n, c, k, s, p, 1, input.device) for n, c, k, s, p in zip(sizes, counts, kernel, step, padded)]
    total = window_sums(table(wide, dims), *rows(sides, sizes), contract)
    if divisor is None and not whole:
        many = _counts(counts, sizes, kernel, step, padded, count_include_pad, input.device)
        by = floating(many, total.dtype)
    else:
        by = constant(math.prod(kernel) if divisor is None else divisor, total.dtype, total.device)
    return narrowed(untable(_ops.div(total, by, contract), input, counts), storage)


def _adaptive(
    op: str, dims: int, input: Tensor, output_size: Ints | Sequence[int | None] | None, contract: str
) -> Tensor:
    counts = adaptive_sizes(op, dims, input, output_size)
    sizes = input.shape[-dims:]
    if 0 in counts:
        return input.new_zeros((*input.shape[:-dims], *counts))
    if not any(n % c for c, n in zip(counts, sizes)):
        windows, inner = _tiles(input, counts, [n // c for c, n in zip(counts, sizes)])
        return _ops.mean(windows, inner, False, contract)  # type: ignore[no-any-return]
    storage, (wide,) = widened(input)
    sides = [adaptive_side(n, c, input.device) for n, c in zip(sizes, counts)]
    total = window_sums(table(wide, dims), *rows(sides, sizes), contract)
    lengths = [s.at.shape[1] + torch.zeros_like(s.at[:, 0]) if s.inside is None else s.inside.sum(1) for s in sides]
    return narrowed(
        untable(_ops.div(total, floating(_products(lengths), total.dtype), contract), input, counts), storage
    )


def adaptive_sizes(op: str, dims: int, input: Tensor, output_size: Ints | Sequence[int | None] | None) -> list[int]:
    """The sides of an adaptive pool's output: None, or one integer or `dims` of them, None for that of the input."""
    check_tensor(op, input=input)
    check_dim(op, (dims + 1, dims + 2), input=input)
    check_dtype(op, ALL, input=input)
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * dims
    check(op, len(given) == dims, lambda: f"output_size is {output_size}, expected one integer or {dims}")
    sizes = [n if c is None else as_int(op, "output_size", c) for c, n in zip(given, input.shape[-dims:])]
    check_least(op, 0, output_size=sizes)
    check(
        op, all(input.shape[-dims - 1 :]), lambda: f"input.shape is {tuple(input.shape)}, expected 0 for the batch only"
    )
    return sizes


@replayed
def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """Mean of each window: `(N, C, L) -> (N, C, OL)`, any floating-point dtype.

    The sum of the elements of the window that are in the input, in row-major order, divided once.

    Args:
        input: (N, C, L) or (C, L).
        kernel_size, stride, padding: one integer or a sequence of one; the stride is the kernel size by default.
        ceil_mode: keep a last window that the side cuts off.
        count_include_pad: whether the padding that a window has counts in the divisor, too.

    Raises:
        ShapeError: if the kernel is larger than the padded input, or an option out of range.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool1d.html
    """
    return _average(
        "avg_pool1d",
        1,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        None,
        contract_name(contract),
    )


@replayed
def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """Mean of each window: `(N, C, H, W) -> (N, C, OH, OW)`, any floating-point dtype.

    The sum of the elements of the window that are in the input, in row-major order, divided once.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, stride, padding: one integer or (height, width); the stride is the kernel size by default.
        ceil_mode: keep a last window that the side cuts off.
        count_include_pad: whether the padding that a window has counts in the divisor, too.
        divisor_override: what sums are divided by, in place of the number of elements.

    Raises:
        ShapeError: if the kernel is larger than the padded input, or an option out of range.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html
    """
    return _average(
        "avg_pool2d",
        2,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        contract_name(contract),
    )


@replayed
def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """Mean of each window: `(N, C, D, H, W) -> (N, C, OD, OH, OW)`, any floating-point dtype.

    The sum of the elements of the window that are in the input, in row-major order, divided once.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size, stride, padding: one integer or (depth, height, width); the stride is the kernel size by default.
        ceil_mode: keep a last window that the side cuts off.
        count_include_pad: whether the padding that a window has counts in the divisor, too.
        divisor_override: what sums are divided by, in place of the number of elements.

    Raises:
        ShapeError: if the kernel is larger than the padded input, or an option out of range.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool3d.html
    """
    return _average(
        "avg_pool3d",
        3,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        contract_name(contract),
    )


@replayed
def adaptive_avg_pool1d(
    input: Tensor, output_size: int | Sequence[int], *, contract: Contract | str | None = None
) -> Tensor:
    """Mean of each of OL windows: `(N, C, L) -> (N, C, OL)`, any floating-point dtype.

    Window i of a side of n elements, of m, goes from `floor(i * n / m)` to `ceil((i + 1) * n / m)`.

    Args:
        input: (N, C, L) or (C, L).
        output_size: OL.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool1d.html
    """
    return _adaptive("adaptive_avg_pool1d", 1, input, output_size, contract_name(contract))


@replayed
def adaptive_avg_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, contract: Contract | str | None = None
) -> Tensor:
    """Mean of each of OH x OW windows: `(N, C, H, W) -> (N, C, OH, OW)`, any floating-point dtype.

    Window i of a side of n elements, of m, goes from `floor(i * n / m)` to `ceil((i + 1) * n / m)`.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: one integer for all sides, or OH, OW; None keeps a side.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html
    """
    return _adaptive("adaptive_avg_pool2d", 2, input, output_size, contract_name(contract))


@replayed
def adaptive_avg_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, contract: Contract | str | None = None
) -> Tensor:
    """Mean of each of OD x OH x OW windows: `(N, C, D, H, W) -> (N, C, OD, OH, OW)`, any floating-point dtype.

    Window i of a side of n elements, of m, goes from `floor(i * n / m)` to `ceil((i + 1) * n / m)`.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: one integer for all sides, or OD, OH, OW; None keeps a side.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool3d.html
    """
    return _adaptive("adaptive_avg_pool3d", 3, input, output_size, contract_name(contract))
