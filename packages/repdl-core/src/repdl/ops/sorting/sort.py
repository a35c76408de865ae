"""Sorting and what it finds: comparisons of integers (`repdl.ops.common.packed`, `sort_key`), and data movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes
from repdl.errors import check, check_least_dim, check_range
from repdl.ops.common import (
    OfAllOrOverDim,
    as_numpy,
    can_pack,
    gather_words,
    normalize_dim,
    ordered_places,
    places,
    sort_key,
)
from repdl.ops.declare import public, variants
from repdl.ops.indexing.gather import at_least_1d, gather
from repdl.registry import as_int, computes, define, functions as _ops

__all__ = ["argsort", "kthvalue", "median", "msort", "nanmedian", "sort", "topk"]


_FEW, _MANY, _LARGE = 16, 64, 1 << 11
"""Of more than _LARGE elements NumPy is faster than the kernel, where rows of more than _FEW elements are sorted, or
more than the first _MANY are wanted."""


def _check(op: str, input: Tensor, first: int, count: int) -> None:
    check_least_dim(op, 1, input=input)
    size = input.shape[-1]
    check_range(op, size < 1 << 32, lambda: f"input.shape[-1] is {size}, expected less than 2**32")
    check_range(
        op,
        0 <= first <= first + count <= size,
        lambda: f"first is {first} and count {count}, expected a part of input.shape[-1] = {size}",
    )


def _fake(input: Tensor, count: int) -> tuple[Tensor, Tensor]:
    shape = (*input.shape[:-1], count)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int64)


def _formula(input: Tensor, descending: bool, first: int, count: int, contract: str) -> tuple[Tensor, Tensor]:
    indices = (
        torch.sort(sort_key(input), dim=-1, descending=descending, stable=True)
        .indices.narrow(-1, first, count)
        .contiguous()
    )
    return gather_words(input, -1, indices), indices


def _to_input(g: Tensor, indices: Tensor, input_shape: torch.Size, contract: str) -> Tensor:
    return _ops.index_sum(
        g.reshape(-1, 1), places(indices, indices.dim() - 1, input_shape).reshape(-1), input_shape.numel(), contract
    ).view(input_shape)


define(
    "sort",
    "(Tensor input, bool descending, int first, int count, str contract) -> (Tensor values, Tensor indices)",
    check=_check,
    fake=_fake,
    gradients={"input": _to_input},
    dtypes=Dtypes(outputs=("input", ""), keeps_16_bit=True),
    formula=_formula,
    family="max",
)


def _sorted(
    input: Tensor, dim: int, descending: bool, first: int = 0, count: int | None = None, *, contract: str
) -> tuple[Tensor, Tensor]:
    """Elements and indices along `dim`: equal elements keep their order, NaN is larger than everything. `count` from
    `first` on, or all."""
    size = input.shape[dim]
    number = size if count is None else count
    end = first + number
    is_numpys = input.numel() > _LARGE and end > (_FEW if end == size else _MANY)
    can_be_packed = (is_numpys or input.dtype not in ALL) and can_pack(input, dim)
    if can_be_packed:
        indices = ordered_places(input, dim, descending, first, number)
    elif input.dtype in ALL:
        if dim == input.dim() - 1:
            return _ops.sort(input, descending, first, number, contract)
        values, indices = _ops.sort(input.movedim(dim, -1), descending, first, number, contract)
        return values.movedim(-1, dim).contiguous(), indices.movedim(-1, dim).contiguous()
    else:
        indices = torch.sort(input, dim=dim, descending=descending, stable=True).indices.narrow(dim, first, number)
    return gather(input, dim, indices, contract=contract), indices


@computes("sort", integers=True)
@public("max")
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
    values, indices = _sorted(rows, position, descending, contract=contract)
    return torch.return_types.sort((values.reshape(input.shape), indices.reshape(input.shape)))


def _position(op: str, input: Tensor, dim: int, axis: int | None) -> int:
    check(op, axis is None or dim == -1, lambda: f"dim is {dim} and axis is {axis}, expected one of them")
    return normalize_dim(op, dim if axis is None else axis, input.dim())


@public("max")
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
    rows = at_least_1d(input).detach()
    return _sorted(rows, position, descending, contract=contract)[1].reshape(input.shape)


@public("max")
def msort(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The values of `sort` along the first dimension, any shape, floats or integers."""
    return sort(input, 0, contract=contract)[0]


@public("max")
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
    values, indices = _sorted(rows, position, largest, 0, count, contract=contract)
    if input.dim() == 0 and count == 1:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return torch.return_types.topk((values, indices.contiguous()))


def _one(op: str, input: Tensor, at: Tensor | int, dim: int, keepdim: bool, contract: str) -> tuple[Tensor, Tensor]:
    """Of each row the element that stands at `at` once it is sorted, and its index."""
    rows = at_least_1d(input)
    if isinstance(at, int):
        values, indices = _sorted(rows, dim, False, at, 1, contract=contract)
    else:
        indices = _sorted(rows.detach(), dim, False, contract=contract)[1].gather(dim, at)
        values = gather(rows, dim, indices, contract=contract)
    if input.dim() == 0 or not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return values, indices


@public("max")
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
