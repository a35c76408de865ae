"""Averages over windows that do not overlap: means of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl import registry
from repdl.contract import Contract, contract_name
from repdl.errors import (
    UnsupportedError,
    as_int,
    as_pair,
    as_row,
    check,
    check_bool,
    check_dim,
    check_tensor,
)
from repdl.ops._number import constant
from repdl.replay import replayed

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d"]

_ops = registry.functions


def _windows(input: torch.Tensor, size: Sequence[int], kernel: Sequence[int]) -> tuple[torch.Tensor, list[int]]:
    """A view with `size` windows of `kernel` elements side by side, and the dimensions that a window has in it."""
    (oh, ow), (kh, kw) = size, kernel
    view = input[..., : oh * kh, : ow * kw].reshape(*input.shape[:-2], oh, kh, ow, kw)
    return view, [view.dim() - 3, view.dim() - 1]


def _average(
    op: str,
    input: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    divisor: int | None,
    contract: str,
) -> torch.Tensor:
    """avg_pool2d of checked types."""
    check(op, min(kernel) >= 1, lambda: f"kernel_size is {tuple(kernel)}, expected at least 1")
    check(op, min(stride) >= 1, lambda: f"stride is {tuple(stride)}, expected at least 1")
    check(
        op,
        all(0 <= p <= k // 2 for p, k in zip(padding, kernel)),
        lambda: f"padding is {tuple(padding)}, expected 0 to half of kernel_size = {tuple(kernel)}",
    )
    check(op, divisor != 0, "divisor_override is 0, expected another number")
    sides = input.shape[-2:]
    check(
        op,
        all(k <= n for k, n in zip(kernel, sides)) and input.shape[-3] > 0,
        lambda: f"kernel_size is {tuple(kernel)}, expected at most the size of the input, {tuple(sides)}",
    )
    size = [(n - k) // s + 1 for n, k, s in zip(sides, kernel, stride)]
    cut = ceil_mode and any((n - k) % s for n, k, s in zip(sides, kernel, stride))
    if padding != [0, 0] or cut or any(s != k and n > 1 for s, k, n in zip(stride, kernel, size)):
        raise UnsupportedError(
            f"{op}: kernel_size is {tuple(kernel)} with stride {tuple(stride)}, padding {tuple(padding)} and "
            f"ceil_mode={ceil_mode}, expected windows side by side (stride = kernel_size, no padding, none that an "
            f"edge cuts): overlapping and padded ones are not in the contract yet"
        )
    windows, dims = _windows(input, size, kernel)
    if divisor is None:
        return _ops.mean(windows, dims, False, contract)  # type: ignore[no-any-return]
    total = _ops.sum(windows, dims, False, contract)
    return _ops.div(total, constant(divisor, total.dtype, total.device), contract)  # type: ignore[no-any-return]


@replayed
def avg_pool2d(
    input: torch.Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """Mean of each window: `(N, C, H, W) -> (N, C, OH, OW)`, any floating-point dtype; windows lie side by side.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, stride, padding: one integer or (height, width); the stride is the kernel size by default.
        ceil_mode: keep a last window that the side cuts off, which the contract does not have yet.
        count_include_pad: of no use without padding.
        divisor_override: what sums are divided by, in place of the number of elements.

    Raises:
        ShapeError: if the kernel is larger than the input, or an option out of range.
        UnsupportedError: for windows that overlap, leave gaps, reach into padding or are cut off.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html
    """
    op = "avg_pool2d"
    check_tensor(op, input=input)
    check_bool(op, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    check_dim(op, (3, 4), input=input)
    kernel, name = as_pair(op, "kernel_size", kernel_size), contract_name(contract)
    strides = kernel if _is_default(stride) else as_pair(op, "stride", stride)
    divisor = None if divisor_override is None else as_int(op, "divisor_override", divisor_override)
    return _average(op, input, kernel, strides, as_pair(op, "padding", padding), ceil_mode, divisor, name)


@replayed
def avg_pool1d(
    input: torch.Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """Mean of each window: `(N, C, L) -> (N, C, OL)` or `(C, L) -> (C, OL)`, as `avg_pool2d` of height 1.

    Raises:
        ShapeError: if the kernel is larger than the input, or an option out of range.
        UnsupportedError: for windows that overlap, leave gaps, reach into padding or are cut off.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool1d.html
    """
    op = "avg_pool1d"
    check_tensor(op, input=input)
    check_bool(op, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    check_dim(op, (2, 3), input=input)
    kernel, name = as_row(op, "kernel_size", kernel_size, 1), contract_name(contract)
    strides = kernel if _is_default(stride) else as_row(op, "stride", stride, 1)
    paddings = as_row(op, "padding", padding, 0)
    return _average(op, input.unsqueeze(-2), kernel, strides, paddings, ceil_mode, None, name).squeeze(-2)


def _is_default(stride: Any) -> bool:
    return stride is None or (isinstance(stride, (list, tuple)) and not stride)


def _adaptive(op: str, input: torch.Tensor, size: Sequence[int], contract: str) -> torch.Tensor:
    sides = input.shape[-2:]
    check(op, min(size) >= 0, lambda: f"output_size is {tuple(size)}, expected at least 0")
    check(op, min(sides) > 0, lambda: f"input.shape is {tuple(input.shape)}, expected sides of at least 1")
    if any(o and n % o for o, n in zip(size, sides)):
        raise UnsupportedError(
            f"{op}: output_size is {tuple(size)} for an input of {tuple(sides)}, expected sizes that divide the "
            f"input's: windows of several sizes are not in the contract yet"
        )
    if 0 in size:
        return input.new_zeros((*input.shape[:-2], *size))
    windows, dims = _windows(input, size, [n // o for n, o in zip(sides, size)])
    return _ops.mean(windows, dims, False, contract)  # type: ignore[no-any-return]


@replayed
def adaptive_avg_pool2d(
    input: torch.Tensor, output_size: int | Sequence[int | None] | None, *, contract: Contract | str | None = None
) -> torch.Tensor:
    """Mean of each of OH x OW windows: `(N, C, H, W) -> (N, C, OH, OW)`, any floating-point dtype.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: OH = OW, or (OH, OW); None keeps a side. It divides the size of the input.

    Raises:
        UnsupportedError: for an output size that does not divide the input's.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html
    """
    op, name = "adaptive_avg_pool2d", contract_name(contract)
    check_tensor(op, input=input)
    check_dim(op, (3, 4), input=input)
    sizes = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * 2
    check(op, len(sizes) == 2, lambda: f"output_size is {output_size}, expected one integer or two (height, width)")
    sides = [n if o is None else as_int(op, "output_size", o) for o, n in zip(sizes, input.shape[-2:])]
    return _adaptive(op, input, sides, name)


@replayed
def adaptive_avg_pool1d(
    input: torch.Tensor, output_size: int | Sequence[int], *, contract: Contract | str | None = None
) -> torch.Tensor:
    """Mean of each of OL windows: `(N, C, L) -> (N, C, OL)` or `(C, L) -> (C, OL)`, any floating-point dtype.

    Raises:
        UnsupportedError: for an output size that does not divide the input's.
        DTypeError: if `input` is of no dtype of the contract.

    Contract: sum v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool1d.html
    """
    op, name = "adaptive_avg_pool1d", contract_name(contract)
    check_tensor(op, input=input)
    check_dim(op, (2, 3), input=input)
    return _adaptive(op, input.unsqueeze(-2), as_row(op, "output_size", output_size, 1), name).squeeze(-2)
