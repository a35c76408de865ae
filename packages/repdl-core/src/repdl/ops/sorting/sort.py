"""Sorting and what it finds: comparisons of integers (`repdl.ops.common.packed`, `sort_key`), and data movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check, check_range
from repdl.ops.common import OfAllOrOverDim, as_numpy, can_pack, normalize_dim, ordered_places, sort_key
from repdl.ops.declare import public, variants
from repdl.ops.indexing.gather import at_least_1d, gather
from repdl.registry import as_int, computes

__all__ = ["argsort", "kthvalue", "median", "msort", "nanmedian", "sort", "topk"]


def _sorted(input: Tensor, dim: int, descending: bool, first: int = 0, count: int | None = None) -> Tensor:
    """The indices along `dim`: equal elements keep their order, NaN is larger than everything. `count` from `first` on,
    or all."""
    number = input.shape[dim] if count is None else count
    if can_pack(input, dim):
        return ordered_places(input, dim, descending, first, number)
    return torch.sort(sort_key(input), dim=dim, descending=descending, stable=True).indices.narrow(dim, first, number)


@computes("sort", integers=True)
@public("max", uncached="a sort of integers computes it")
def sort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    axis: int | None = None,
    contract: ContractLike = None,
) -> torch.return_types.sort:
    """The elements in ascending order along `dim`, a named tuple `(values, indices)`, of floats or integers.

    Any shape. Equal elements, zeros of both signs among them, keep their order, whether `stable` or not. NaN is
    larger than everything. Values are moved, their bits unchanged, and so are gradients.
    """
    position = _position("sort", input, dim, axis)
    rows = at_least_1d(input)
    indices = _sorted(rows, position, descending)
    pair = gather(rows, position, indices, contract=contract).reshape(input.shape), indices.reshape(input.shape)
    return torch.return_types.sort(pair)


def _position(op: str, input: Tensor, dim: int, axis: int | None) -> int:
    check(op, axis is None or dim == -1, lambda: f"dim is {dim} and axis is {axis}, expected one of them")
    return normalize_dim(op, dim if axis is None else axis, input.dim())


@public("max", uncached="a sort of integers computes it")
def argsort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    axis: int | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """The indices of `sort`, any shape, floats or integers."""
    position = _position("argsort", input, dim, axis)
    return _sorted(at_least_1d(input), position, descending).reshape(input.shape)


@public("max", uncached="a sort of integers computes it")
def msort(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The values of `sort` along the first dimension, any shape, floats or integers."""
    return sort(input, 0, contract=contract)[0]


@public("max", uncached="a sort of integers computes it")
def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    axis: int | None = None,
    contract: ContractLike = None,
) -> torch.return_types.topk:
    """The first `k` of `sort`, from the largest or from the smallest on: a named tuple `(values, indices)`.

    Of equal elements the first ones, in ascending index. The result is sorted, whether `sorted` or not.

    Raises:
        ShapeError: if `dim` does not exist, or has less than `k` elements.
    """
    position = _position("topk", input, dim, axis)
    rows, count = at_least_1d(input), as_int("topk", "k", k)
    size = rows.shape[position]
    check_range("topk", 0 <= count <= size, lambda: f"k is {count}, expected 0 to input.shape[{position}] = {size}")
    indices = _sorted(rows, position, largest, 0, count)
    values = gather(rows, position, indices, contract=contract)
    if input.dim() == 0 and count == 1:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return torch.return_types.topk((values, indices.contiguous()))


def _one(op: str, input: Tensor, at: Tensor | int, dim: int, keepdim: bool, contract: str) -> tuple[Tensor, Tensor]:
    """Of each row the element that stands at `at` once it is sorted, and its index."""
    rows = at_least_1d(input)
    indices = _sorted(rows, dim, False, at, 1) if isinstance(at, int) else _sorted(rows, dim, False).gather(dim, at)
    values = gather(rows, dim, indices, contract=contract)
    if input.dim() == 0 or not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return values, indices


@public("max", uncached="a sort of integers computes it")
def kthvalue(
    input: Tensor,
    k: int,
    dim: int = -1,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> torch.return_types.kthvalue:
    """The `k`-th smallest element along `dim`, counted from 1: a named tuple `(values, indices)`.

    Of equal elements the one that `sort` has there.

    Raises:
        ShapeError: if `dim` does not exist, or `k` is none of its elements.
    """
    keepdim = keepdim if keepdims is None else keepdims
    position = _position("kthvalue", input, dim, axis)
    size, number = input.shape[position] if input.dim() else 1, as_int("kthvalue", "k", k)
    check_range(
        "kthvalue", 1 <= number <= size, lambda: f"k is {number}, expected 1 to input.shape[{position}] = {size}"
    )
    found = _one("kthvalue", input, number - 1, position, keepdim, contract)
    return torch.return_types.kthvalue(found)


def _median(
    op: str,
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor | Sequence[Tensor]:
    dim, keepdim = as_numpy(op, dim, keepdim, axis, keepdims)
    rows, position = (input.reshape(-1), 0) if dim is None else (input, normalize_dim(op, dim, input.dim()))
    size = rows.shape[position] if rows.dim() else 1
    if dim is None and size == 0:
        return input.new_full((), float("nan"))
    check_range(op, size > 0, lambda: f"input.shape[{position}] is 0, expected 1 or more to take a median of")
    keys = at_least_1d(rows)
    nan = keys.detach().isnan() if input.is_floating_point() else torch.zeros_like(keys, dtype=torch.bool)
    middle: Tensor | int = (size - 1) // 2
    if not can_pack(keys, position) or nan.any():
        left = (~nan).sum(position, keepdim=True)  # NaN comes last: the others are the first of a row
        middle = (left - 1).clamp(min=0) // 2
        if op == "median":  # a NaN is the median: the first one, which follows the others
            middle = torch.where(left < size, left, middle)
    values, indices = _one(op, rows, middle, position, keepdim or dim is None, contract)
    if dim is None:
        return values.reshape(())
    return getattr(torch.return_types, op)((values, indices))


_DOCS = {
    "median": """
    The element number (n - 1) // 2 of n sorted ones: of all, or along `dim`, a named tuple `(values, indices)`.

    The lower one of two in the middle. With a NaN the first NaN. Of equal elements the one that `sort` has there.

    Raises:
        ShapeError: if `dim` does not exist or has no element.
    """,
    "nanmedian": """`median` of the elements that are not NaN; NaN where there are none.

    Raises:
        ShapeError: if `dim` does not exist or has no element.
    """,
}
median, nanmedian = (
    cast(OfAllOrOverDim, function)
    for function in variants(_median, "max", _DOCS, uncached="a sort of integers computes it")
)
