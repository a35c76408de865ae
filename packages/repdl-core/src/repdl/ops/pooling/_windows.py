"""Windows over the last dimensions of a tensor, as rows of a table that are selected.

A table has a row for each position of the windowed sides, in row-major order, and a column for everything else:
`(N, C, H, W) -> (H * W, N * C)`. A window is a list of rows. So selecting windows is `embedding`, its derivative, and
`fold`, is `index_sum`; both move or add whole rows, whatever the number of dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repdl.errors import check
from repdl.registry import as_int, as_ints, functions as _ops
from repdl.tensors import layout

DOC = """Maximum over windows: `(N, C, {sides}) -> (N, C, {out})`, any floating-point dtype.

Args:
    input: (N, C, {sides}) or (C, {sides}).
    kernel_size, stride, padding, dilation: one integer or {option}; the stride is the kernel size by default. Padding
        is never larger than any element.
    ceil_mode: keep a last window that the side cuts off.
    return_indices: also return the int64 index of each maximum among the elements of its channel.

Raises:
    ShapeError: if the kernel is larger than the padded input, or an option out of range.
"""
"""Of max_pool."""


class Side(NamedTuple):
    """The positions on one side that the windows have, `at`, (O, K); `inside`: which of them exist, None: all."""

    at: Tensor
    inside: Tensor | None


def side(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int, device: torch.device) -> Side:
    """`count` windows of `kernel` positions on a side of `size` that is padded."""
    starts = torch.arange(count, device=device).unsqueeze(1) * stride - padding
    index = starts + torch.arange(kernel, device=device) * dilation
    fits = padding == 0 and (count - 1) * stride + dilation * (kernel - 1) < size
    return Side(index, None if fits else (index >= 0) & (index < size))


def adaptive_side(size: int, count: int, device: torch.device) -> Side:
    """`count` windows that cover a side of `size`: window i from `floor(i * size / count)` to
    `ceil((i + 1) * size / count)`. They have as many positions as the longest; those behind an end repeat its last."""
    i = torch.arange(count, device=device).unsqueeze(1)
    start, end = i * size // count, ((i + 1) * size + count - 1) // count
    rest = size % count
    longest = size // count + (0 if rest == 0 else 1 if count % rest == 0 else 2)
    index = start + torch.arange(longest, device=device)
    return Side(index.minimum(end - 1), index < end if rest else None)


def rows(sides: Sequence[Side], sizes: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """The rows of each window, `(O, K)`, and which of them exist, None: all; both in row-major order.

    Those that do not exist are some number.
    """
    dims, stride = len(sides), 1
    place: Any = 0
    inside: Any = None
    for d in range(dims - 1, -1, -1):
        shape = [1] * (2 * dims)
        shape[d], shape[dims + d] = sides[d].at.shape
        place = place + sides[d].at.view(shape) * stride
        exists = sides[d].inside
        if exists is not None:
            inside = exists.view(shape) if inside is None else inside & exists.view(shape)
        stride = stride * sizes[d]
    windows = math.prod([s.at.shape[0] for s in sides])
    if inside is not None:
        inside = inside.expand(place.shape).reshape(windows, -1)
    return place.reshape(windows, -1), inside


def table(input: Tensor, dims: int) -> Tensor:
    """`(..., *sides) -> (positions, columns)`."""
    lead, sides = input.shape[: input.dim() - dims], input.shape[input.dim() - dims :]
    return input.reshape(math.prod(lead), math.prod(sides)).t()


def untable(rows: Tensor, like: Tensor, sides: Sequence[int]) -> Tensor:
    """`(positions, columns) -> (..., *sides)` with the other dimensions, and the memory format, of `like`."""
    lead = like.shape[: like.dim() - len(sides)]
    return rows.t().reshape(*lead, *sides).contiguous(memory_format=layout.memory_format(like))


def select(table: Tensor, place: Tensor, contract: str) -> Tensor:
    """Rows of a table: `(P, D), (...) -> (..., D)`."""
    return _ops.embedding(table, place, -1, False, contract)


def window_sums(table: Tensor, place: Tensor, inside: Tensor | None, contract: str) -> Tensor:
    """The sum of each window, `(P, D), (O, K) -> (O, D)`, over the rows that exist, in their order."""
    if inside is None:
        return _ops.sum(select(table, place, contract), [1], False, contract)
    # What does not exist is a row behind the last one, and a term of a window behind the last one.
    longer = torch.nn.functional.pad(table, (0, 0, 0, 1))
    terms = select(longer, torch.where(inside, place, table.shape[0]).reshape(-1), contract)
    count = place.shape[0]
    owner = torch.arange(count, device=place.device).unsqueeze(1)
    owner = torch.where(inside, owner, count).reshape(-1)
    return _ops.index_sum(terms, owner, count + 1, contract).narrow(0, 0, count)


def direction(
    op: str, backward: bool, images: Tensor, size: Sequence[int]
) -> tuple[str, str, Sequence[int], Sequence[int]]:
    """Of an op on images to `size`, or its derivative: their names, and what the op has as sides after and before."""
    sides = images.shape[2:]
    return (f"{op}_backward", "grad", sides, size) if backward else (op, "input", size, sides)


def resized(images: Tensor, *rest: Any) -> Tensor:
    """An output of such an op: images with the sides of the next-to-last argument."""
    return layout.images([*images.shape[:2], *rest[-2]], images).empty(images)


def per_side(op: str, name: str, value: Any, dims: int) -> list[int]:
    """One integer, or a sequence of one or of `dims`, as one for each side."""
    given = as_ints(op, name, value) if isinstance(value, (list, tuple)) else [as_int(op, name, value)]
    if len(given) == 1:
        given = given * dims
    check(op, len(given) == dims, lambda: f"{name} is {value}, expected one integer or {dims}, one for each side")
    return given


def strides(op: str, value: Any, kernel: list[int]) -> list[int]:
    """The option stride, the kernel size by default."""
    default = value is None or (isinstance(value, (list, tuple)) and not value)
    return kernel if default else per_side(op, "stride", value, len(kernel))


def check_elements(op: str, input: Tensor, dims: int) -> None:
    """Raise unless an input, (N, C, ...) or (C, ...) of `dims` sides, has elements, or 0 of the batch."""
    shape = tuple(input.shape)
    check(op, all(shape[-dims - 1 :]), lambda: f"input.shape is {shape}, expected 0 for the batch only")


def check_least(op: str, least: int, **options: Sequence[int]) -> None:
    """Raise unless each number of the options is at least `least`."""
    for name, values in options.items():
        check(op, min(values) >= least, lambda: f"{name} is {tuple(values)}, expected at least {least}")
