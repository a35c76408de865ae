"""What reductions share: dimensions, the option dtype, numpy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, overload

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import DTypeError, check, check_range
from repdl.ops.common.casting import narrowed
from repdl.ops.common.scalar import floating
from repdl.registry import as_int, as_ints

__all__ = [
    "OfAllOrOverDim",
    "OfAllOverDimOrOfTwo",
    "as_numpy",
    "in_dtype",
    "is_whole",
    "normalize_dim",
    "normalize_dims",
    "reduced_shape",
    "rows_of",
    "to_integer_dtype",
    "to_requested_dtype",
]


def normalize_dims(op: str, dim: int | Sequence[int] | None, ndim: int) -> list[int]:
    """`dim` as torch's reductions take it, as ascending non-negative dimensions.

    None and the empty sequence stand for all dimensions; a 0-D tensor has the
    dimensions 0 and -1, which reduce nothing.
    """
    if dim is None:
        return list(range(ndim))
    given = as_ints(op, "dim", dim) if isinstance(dim, (list, tuple)) else [as_int(op, "dim", dim)]
    if not given:
        return list(range(ndim))
    high = max(ndim, 1)
    for d in given:
        check_range(
            op,
            -high <= d < high,
            lambda: f"dim is {d}, expected {-high} to {high - 1} (input.dim() is {ndim})",
        )
    dims = sorted(d % high for d in given)
    check(op, len(set(dims)) == len(dims), lambda: f"dim is {tuple(given)}, expected every dimension at most once")
    return dims if ndim else []


def normalize_dim(op: str, dim: int, ndim: int) -> int:
    """One dimension, as a non-negative one; that of a 0-D tensor is 0."""
    positions = normalize_dims(op, as_int(op, "dim", dim), ndim)
    return positions[0] if positions else 0


def reduced_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> list[int]:
    """The shape that is left when `dims` (non-negative) are reduced."""
    return [1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims]


def is_whole(dtype: torch.dtype) -> bool:
    """Whether a dtype is of integers or bools, on which torch's own functions are exact."""
    return not dtype.is_floating_point and not dtype.is_complex


def to_integer_dtype(input: Tensor, dtype: torch.dtype | None) -> Tensor:
    """`input` cast to the option `dtype`, of integers, for torch's own function."""
    return input if dtype is None else input.to(dtype)


def rows_of(input: Tensor, dims: Sequence[int]) -> Tensor:
    """`input` with `dims` (ascending) as one last dimension, in row-major order: data movement."""
    kept = [d for d in range(input.dim()) if d not in dims]
    size = 1
    for d in dims:
        size *= input.shape[d]
    return input.permute([*kept, *dims]).reshape([*(input.shape[d] for d in kept), size])


def as_numpy(op: str, dim: Any, keepdim: bool, axis: Any, keepdims: bool | None) -> tuple[Any, bool]:
    """`dim` and `keepdim`, which may go by numpy's names, as in torch."""
    check(op, axis is None or dim is None, lambda: f"dim is {dim} and axis is {axis}, expected one of them")
    return dim if axis is None else axis, keepdim if keepdims is None else keepdims


class OfAllOrOverDim(Protocol):
    """A function of all elements, or of those along a dimension, as type checkers see it.

    All named tuples `(values, indices)` of torch are one to them.
    """

    @overload
    def __call__(
        self, input: Tensor, dim: int, keepdim: bool = ..., *, keepdims: bool | None = ..., contract: ContractLike = ...
    ) -> torch.return_types.max: ...
    @overload
    def __call__(
        self,
        input: Tensor,
        *,
        axis: int,
        keepdim: bool = ...,
        keepdims: bool | None = ...,
        contract: ContractLike = ...,
    ) -> torch.return_types.max: ...
    @overload
    def __call__(
        self, input: Tensor, dim: None = ..., keepdim: bool = ..., *, contract: ContractLike = ...
    ) -> Tensor: ...


class OfAllOverDimOrOfTwo(Protocol):
    """The same, or a function of two tensors."""

    @overload
    def __call__(
        self, input: Tensor, dim: int, keepdim: bool = ..., *, keepdims: bool | None = ..., contract: ContractLike = ...
    ) -> torch.return_types.max: ...
    @overload
    def __call__(
        self,
        input: Tensor,
        *,
        axis: int,
        keepdim: bool = ...,
        keepdims: bool | None = ...,
        contract: ContractLike = ...,
    ) -> torch.return_types.max: ...
    @overload
    def __call__(
        self, input: Tensor, dim: None = ..., keepdim: bool = ..., *, contract: ContractLike = ...
    ) -> Tensor: ...
    @overload
    def __call__(self, input: Tensor, dim: Tensor, *, contract: ContractLike = ...) -> Tensor: ...
    @overload
    def __call__(self, input: Tensor, *, other: Tensor, contract: ContractLike = ...) -> Tensor: ...


def in_dtype(op: str, input: Tensor, dtype: torch.dtype | None) -> Tensor:
    """`input` cast to the option `dtype` of a reduction, as torch casts before it computes."""
    if dtype is None or dtype is input.dtype:
        return input
    if dtype not in ALL or input.is_complex():
        name = str(dtype).removeprefix("torch.")
        raise DTypeError(
            f"{op}: dtype is {name} with {str(input.dtype).removeprefix('torch.')} input, expected None, "
            f"float32, float64, bfloat16 or float16"
        )
    return floating(input, dtype)


def to_requested_dtype(output: Tensor, dtype: torch.dtype | None) -> Tensor:
    """`output` in the option `dtype`, which is stronger than autocast; the same one rounding."""
    return output if dtype is None else narrowed(output, dtype)
