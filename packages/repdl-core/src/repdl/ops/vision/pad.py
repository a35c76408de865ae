"""pad: one registered op a dimension for the modes that repeat elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes
from repdl.dtypes.rounding import is_zero
from repdl.errors import ArgumentError, UnsupportedError, check, check_dtype
from repdl.ops.common import constant
from repdl.ops.declare import public
from repdl.registry import as_float, as_ints, computes, define, functions as _ops
from repdl.tensors import layout

__all__ = ["pad"]


MODES = ("reflect", "replicate", "circular")


def sources(size: int, left: int, right: int, mode: str) -> list[int]:
    """The index in a side of length `size` that each element of the padded side copies."""
    positions = range(-left, size + right)
    if mode == "replicate":
        return [min(max(i, 0), size - 1) for i in positions]
    if mode == "circular":
        return [i % size for i in positions]
    return [-i if i < 0 else 2 * (size - 1) - i if i >= size else i for i in positions]


def _check_options(op: str, size: int, dim: int, left: int, right: int, mode: str) -> None:
    check(op, mode in MODES, lambda: f"mode is {mode!r}, expected constant, {', '.join(MODES)}")
    most = {"reflect": size - 1, "circular": size, "replicate": max(left, right)}[mode]
    check(
        op,
        0 <= left <= most and 0 <= right <= most,
        lambda: (
            f"padding is ({left}, {right}) in dimension {dim} of size {size}, expected 0 to {max(most, 0)} for {mode}"
        ),
    )
    check(op, size > 0, lambda: f"input.shape[{dim}] is 0, expected 1 or more to repeat elements of it")


def _check(input: Tensor, dim: int, left: int, right: int, mode: str) -> None:
    check("pad", 0 <= dim < input.dim(), lambda: f"dim is {dim}, expected 0 to {input.dim() - 1}")
    _check_options("pad", input.shape[dim], dim, left, right, mode)


def _resized(shape: Sequence[int], dim: int, change: int) -> list[int]:
    return [n + change if d == dim else n for d, n in enumerate(shape)]


def _images(input: Tensor, mode: str) -> tuple[Tensor, ...]:
    """What makes the output and the gradient channels last, if it is; as in torch not when padding is circular."""
    return () if mode == "circular" else (input,)


def _fake(input: Tensor, dim: int, left: int, right: int, mode: str) -> Tensor:
    return layout.images(_resized(input.shape, dim, left + right), *_images(input, mode)).empty(input)


def _to_input(g: Tensor, dim: int, left: int, right: int, mode: str, input_format: torch.memory_format) -> Tensor:
    made = _ops.pad_backward(g, dim, left, right, mode)
    return made.contiguous() if mode == "circular" else made.contiguous(memory_format=input_format)


define(
    "pad",
    "(Tensor input, int dim, int left, int right, str mode) -> Tensor",
    check=_check,
    fake=_fake,
    gradients={"input": _to_input},
    dtypes=Dtypes(),
)


def _check_backward(grad: Tensor, dim: int, left: int, right: int, mode: str) -> None:
    op = "pad_backward"
    check(op, 0 <= dim < grad.dim(), lambda: f"dim is {dim}, expected 0 to {grad.dim() - 1}")
    _check_options(op, grad.shape[dim] - left - right, dim, left, right, mode)


define(
    "pad_backward",
    "(Tensor grad, int dim, int left, int right, str mode) -> Tensor",
    check=_check_backward,
    fake=lambda grad, dim, left, right: grad.new_empty(_resized(grad.shape, dim, -left - right)),
    gradients={"grad": "pad"},
    dtypes=Dtypes(),
    family="pad",
)


def _filled(input: Tensor, pad: Sequence[int], value: float) -> Tensor:
    """Padded by `value`; moves data only. torch's own fill would flush a subnormal value where the thread does."""
    if value == 0 and is_zero(value):
        return torch.nn.functional.pad(input, pad, "constant", value)
    kept = torch.nn.functional.pad(torch.ones_like(input, dtype=torch.bool), pad)
    padded = torch.nn.functional.pad(input, pad)
    return torch.where(kept, padded, constant(value, input.dtype, input.device))


@public("pad")
def pad(
    input: Tensor,
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Make the last dimensions of `input` longer: `(..., W) -> (..., left + W + right)`, any floating-point dtype.

    Args:
        pad: (left, right) of the last dimension, then of the one before it, and so on.
            Negative ones cut.
        mode: 'constant', 'reflect', 'replicate' or 'circular'.
        value: of the constant, 0 by default.
        contract: checked; padding has the same order in all.

    Raises:
        ShapeError: if there are more pairs than dimensions or a pad is out of range.
        UnsupportedError: if `value` is given with another mode than 'constant'.
    """
    if input.layout is not torch.strided:
        raise UnsupportedError(f"pad: input.layout is {input.layout}, expected torch.strided; use .to_dense()")
    check_dtype("pad", ALL, input=input)
    pad = as_ints("pad", "pad", pad)
    if not isinstance(mode, str):
        raise ArgumentError(f"pad: mode is {mode!r}, expected constant, {', '.join(MODES)}")
    value = None if value is None else as_float("pad", "value", value)
    pairs = len(pad) // 2
    check("pad", len(pad) % 2 == 0, lambda: f"pad has {len(pad)} values, expected two a dimension")
    check("pad", pairs <= input.dim(), lambda: f"pad has {pairs} pairs, expected at most input.dim() = {input.dim()}")
    if mode == "constant":
        for i in range(pairs):
            size, left, right = input.shape[input.dim() - 1 - i], pad[2 * i], pad[2 * i + 1]
            check(
                "pad",
                size + min(left, 0) + min(right, 0) >= 0 and size + left + right >= 0,
                lambda: (
                    f"pad is ({left}, {right}) for dimension {input.dim() - 1 - i} of size {size}, "
                    f"expected to cut no more than there is"
                ),
            )
        return _filled(input, pad, 0.0 if value is None else value)
    if value not in (None, 0):
        raise UnsupportedError(f"pad: value is {value} with mode {mode!r}, expected None")
    check("pad", mode in MODES, lambda: f"mode is {mode!r}, expected constant, {', '.join(MODES)}")
    output = input
    least = 1 if pairs == 1 and mode != "circular" else 0  # as torch
    for i in range(pairs):
        output = _padded(output, input.dim() - 1 - i, pad[2 * i], pad[2 * i + 1], mode, least)
    return output.contiguous(memory_format=layout.memory_format(*_images(input, mode))) if any(pad) else output


def _padded(input: Tensor, dim: int, left: int, right: int, mode: str, least: int) -> Tensor:
    """One dimension; what negative pads cut off is copied before, but for circular padding."""
    size = input.shape[dim]
    check(
        "pad",
        size + left + right >= least or not (left or right),
        lambda: f"padding is ({left}, {right}) in dimension {dim} of size {size}, expected {least} or more to be left",
    )
    if mode == "circular":
        input = _cut(input, dim, min(left, 0), min(right, 0))
    if left > 0 or right > 0:
        input = _ops.pad(input, dim, max(left, 0), max(right, 0), mode)
    return input if mode == "circular" else _cut(input, dim, min(left, 0), min(right, 0))


def _cut(input: Tensor, dim: int, left: int, right: int) -> Tensor:
    left_over = input.shape[dim] + left + right
    check(
        "pad",
        left_over >= 0,
        lambda: (
            f"padding cuts ({-left}, {-right}) off dimension {dim} of size {input.shape[dim]}, "
            f"expected no more than there is"
        ),
    )
    return input.narrow(dim, -left, left_over) if left or right else input


_pad_by_mode = pad  # where an argument has the name of the function


@computes("pad")
def _aten_pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    if mode == "constant" or not input.is_floating_point():
        return torch.ops.aten.pad.default.decompose(input, pad, mode, value)
    return _pad_by_mode(input, pad, mode, value)


for _names, _mode in ("reflection_pad", "reflect"), ("replication_pad", "replicate"):
    computes(*(f"{_names}{n}d" for n in (1, 2, 3)), renamed={"padding": "pad"}, given={"mode": _mode})(pad)
