"""Averages over windows: the sum of the elements that exist, in row-major order, divided once.

Windows side by side are parts of the input; others are those of the op, which gets them as numbers: what a call
depends on beside its tensors are numbers (`repdl.callcache`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes
from repdl.dynamo import constant_result
from repdl.errors import check, check_dim, check_dtype, check_size
from repdl.ops.common import constant, floating, narrowed, to_device, widened
from repdl.ops.declare import of_sides, public
from repdl.ops.pooling._windows import (
    Side,
    check_elements,
    check_least,
    direction,
    per_side,
    resized,
    rows,
    select,
    strides,
    table,
    untable,
    window_sums,
)
from repdl.ops.pooling.max_pool2d import pooled_size
from repdl.registry import as_int, define, functions as _ops

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
]

Ints = int | Sequence[int]


FEW, MANY = 16, 1 << 14
"""Windows of up to so many elements, in an input of at least so many, are copied, a copy for each of these: sums over
short runs far from each other cost more. No bit depends on it."""


def _tiles(input: Tensor, counts: Sequence[int], kernel: Sequence[int]) -> tuple[Tensor, list[int]]:
    """`counts` windows of `kernel` elements side by side, a view of the input or a copy, and the dimensions of a
    window in it."""
    lead = input.dim() - len(counts)
    shape = list(input.shape[:lead])
    for d, (count, n) in enumerate(zip(counts, kernel)):
        if input.shape[lead + d] != count * n:  # a view of all would have a derivative that copies it
            input = input.narrow(lead + d, 0, count * n)
        shape += [count, n]
    view, inner = input.reshape(shape), list(range(lead + 1, len(shape), 2))
    if 1 < math.prod(kernel) <= FEW and input.numel() >= MANY:
        first = list(range(len(inner)))
        return view.movedim(inner, first).contiguous(), first
    return view, inner


class _Side(NamedTuple):
    """The windows on one side: where each begins and ends, and what it counts for in the divisor."""

    starts: list[int]
    stops: list[int]
    lengths: list[int]


@constant_result
def _side(size: int, count: int, kernel: int, stride: int, padding: int, length: int | None) -> _Side:
    """`count` windows of a padded side of `size`; a length of 0: that of each in the input, None: with the padding."""
    starts = [i * stride - padding for i in range(count)]
    stops = [min(start + kernel, size + padding) for start in starts]
    inside = [max(start, 0) for start in starts], [min(stop, size) for stop in stops]
    first, last = (starts, stops) if length is None else inside
    return _Side(*inside, [length or stop - start for start, stop in zip(first, last)])


@constant_result
def _adaptive_side(size: int, count: int) -> _Side:
    starts = [i * size // count for i in range(count)]
    stops = [((i + 1) * size + count - 1) // count for i in range(count)]
    return _Side(starts, stops, [stop - start for start, stop in zip(starts, stops)])


def _pooled(input: Tensor, sides: Sequence[_Side], contract: str) -> Tensor:
    """The average of windows; `input` may be one image."""
    images = input if input.dim() == len(sides) + 2 else input.unsqueeze(0)
    numbers = [[n for side in sides for n in side[i]] for i in range(3)]
    output = _op(images, *numbers, [len(side.starts) for side in sides], contract)
    return output if images is input else output.squeeze(0)


def _check(
    backward: bool,
    images: Tensor,
    starts: list[int],
    stops: list[int],
    lengths: list[int],
    size: list[int],
    contract: str,
) -> None:
    op, name, counts, sizes = direction("avg_pool", backward, images, size)
    check_dim(op, (3, 4, 5), **{name: images})
    check_size(op, "len(size)", len(size), images.dim() - 2, f"{name}.dim() - 2")
    check(op, min(*counts, *sizes) > 0, lambda: f"sides are {tuple(sizes)} and {tuple(counts)}, expected at least 1")
    for numbers, values in (("starts", starts), ("stops", stops), ("lengths", lengths)):
        check_size(op, f"len({numbers})", len(values), sum(counts), "the number of windows of all sides")
    first = 0
    for count, side in zip(counts, sizes):
        for start, stop in zip(starts[first : first + count], stops[first : first + count]):
            check(
                op,
                0 <= start <= stop <= side,
                lambda: f"a window goes from {start} to {stop} of a side, expected numbers from 0 to {side}, ascending",
            )
        first += count
    check(op, 0 not in lengths, "a length is 0, expected another number: sums are divided by it")


def _by(lengths: list[int], counts: Sequence[int], like: Tensor) -> Tensor:
    """The product of the lengths of each window, rounded once, `(O, 1)`."""
    total = torch.ones(1, dtype=torch.int64)
    for column in torch.tensor(lengths, dtype=torch.int64).split(counts):
        total = (total.unsqueeze(1) * column).reshape(-1)
    return floating(to_device(total.unsqueeze(1), like.device), like.dtype)


def _windows(
    starts: list[int], stops: list[int], counts: Sequence[int], sizes: Sequence[int], device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """The rows of each window, and which of them it has."""
    sides, first = [], 0
    for count in counts:
        own = [x[first : first + count] for x in (starts, stops)]
        lengths = [end - begin for begin, end in zip(*own)]
        longest, whole = max(lengths), min(lengths) == max(lengths)
        start, stop = to_device(torch.tensor(own), device).unsqueeze(2)
        at = start + torch.arange(longest, device=device)
        sides.append(Side(at.minimum(stop - 1).clamp(min=0), None if whole else at < stop))
        first += count
    return rows(sides, sizes)


def _formula(
    input: Tensor, starts: list[int], stops: list[int], lengths: list[int], size: list[int], contract: str
) -> Tensor:
    place, inside = _windows(starts, stops, size, input.shape[2:], input.device)
    total = window_sums(table(input, len(size)), place, inside, contract)
    return untable(_ops.div(total, _by(lengths, size, input), contract), input, size)


def _backward_formula(
    grad: Tensor, starts: list[int], stops: list[int], lengths: list[int], size: list[int], contract: str
) -> Tensor:
    counts, elements = list(grad.shape[2:]), math.prod(size)
    place, inside = _windows(starts, stops, counts, size, grad.device)
    quotients = _ops.div(table(grad, len(size)), _by(lengths, counts, grad), contract)
    owner = torch.arange(place.shape[0], device=grad.device).unsqueeze(1).expand(place.shape)
    terms = select(quotients, owner.reshape(-1), contract)
    if inside is not None:  # what is in no window is a term of an element behind the last one
        place = torch.where(inside, place, elements)
    total = _ops.index_sum(terms, place.reshape(-1), elements + 1, contract).narrow(0, 0, elements)
    return untable(total, grad, size)


_SCHEMA = "int[] starts, int[] stops, int[] lengths, int[] size, str contract) -> Tensor"

_op: Callable[..., Tensor] = define(
    "avg_pool",
    f"(Tensor input, {_SCHEMA}",
    check=lambda *args: _check(False, *args),
    fake=resized,
    gradients={
        "input": lambda g, starts, stops, lengths, input_shape, contract: _op_backward(
            g, starts, stops, lengths, input_shape[2:], contract
        )
    },
    dtypes=Dtypes(),
    formula=_formula,
    calls=("div", "embedding", "index_sum", "sum"),
)
_op_backward: Callable[..., Tensor] = define(
    "avg_pool_backward",
    f"(Tensor grad, {_SCHEMA}",
    check=lambda *args: _check(True, *args),
    fake=resized,
    gradients={
        "grad": lambda g, starts, stops, lengths, grad_shape, contract: _op(
            g, starts, stops, lengths, grad_shape[2:], contract
        )
    },
    dtypes=Dtypes(),
    formula=_backward_formula,
    calls=("div", "embedding", "index_sum"),
    family="avg_pool",
)


def _average(
    dims: int,
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Mean of each window: `(N, C, {sides}) -> (N, C, {out})`, any floating-point dtype.

    The sum of the elements of the window that are in the input, in row-major order, divided once.

    Args:
        input: (N, C, {sides}) or (C, {sides}).
        kernel_size, stride, padding: one integer or {option}; the stride is the kernel size by default.
        ceil_mode: keep a last window that the side cuts off.
        count_include_pad: whether the padding that a window has counts in the divisor, too.
        divisor_override: of two or three sides, what sums are divided by, in place of the number of elements.

    Raises:
        ShapeError: if the kernel is larger than the padded input, or an option out of range.
    """
    op = f"avg_pool{dims}d"
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
    check_elements(op, input, dims)
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
            return _ops.mean(windows, inner, False, contract)
        storage, (wide,) = widened(windows)
        total = _ops.sum(wide, inner, False, contract)
        return narrowed(_ops.div(total, constant(divisor, total.dtype, total.device), contract), storage)
    lengths: list[int | None] = [None if count_include_pad else 0] * dims
    if divisor is not None:
        lengths = [divisor, *[1] * (dims - 1)]
    given = zip(sizes, counts, kernel, step, padded, lengths)
    return _pooled(input, [_side(*(x if x is None else index(x) for x in side)) for side in given], contract)


def _adaptive(
    dims: int, input: Tensor, output_size: int | Sequence[int | None] | None, *, contract: ContractLike = None
) -> Tensor:
    """Mean of each of {windows} windows: `(N, C, {sides}) -> (N, C, {out})`, any floating-point dtype.

    Window i of a side of n elements, of m, goes from `floor(i * n / m)` to `ceil((i + 1) * n / m)`.

    Args:
        input: (N, C, {sides}) or (C, {sides}).
        output_size: one integer for all sides, or {out}; None keeps a side.

    Raises:
        ShapeError: if a size is negative, or the input has none.
    """
    op = f"adaptive_avg_pool{dims}d"
    counts = adaptive_sizes(op, dims, input, output_size)
    sizes = input.shape[-dims:]
    if 0 in counts:
        return input.new_zeros((*input.shape[:-dims], *counts))
    if not any(n % c for c, n in zip(counts, sizes)):
        windows, inner = _tiles(input, counts, [n // c for c, n in zip(counts, sizes)])
        return _ops.mean(windows, inner, False, contract)
    return _pooled(input, [_adaptive_side(index(n), index(c)) for n, c in zip(sizes, counts)], contract)


def adaptive_sizes(op: str, dims: int, input: Tensor, output_size: Ints | Sequence[int | None] | None) -> list[int]:
    """The sides of an adaptive pool's output: None, or one integer or `dims` of them, None for that of the input."""
    check_dim(op, (dims + 1, dims + 2), input=input)
    check_dtype(op, ALL, input=input)
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * dims
    check(op, len(given) == dims, lambda: f"output_size is {output_size}, expected one integer or {dims}")
    sizes = [n if c is None else as_int(op, "output_size", c) for c, n in zip(given, input.shape[-dims:])]
    check_least(op, 0, output_size=sizes)
    check_elements(op, input, dims)
    return sizes


@public("avg_pool", sides=1, doc=_average.__doc__ or "")
def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    contract: ContractLike = None,
) -> Tensor:
    return _average(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, contract=contract)


avg_pool2d, avg_pool3d = of_sides(_average, "avg_pool", "avg_pool", (2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = of_sides(_adaptive, "adaptive_avg_pool", "avg_pool")
