"""Functions that select elements by index; the derivative of a selection is `index_sum`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import UnsupportedError, check, check_dim, check_dtype
from repdl.ops.common import as_index, indexed, is_whole, normalize_dim, places
from repdl.ops.declare import public
from repdl.registry import functions as _ops

__all__ = ["gather", "index", "index_select", "take", "take_along_dim"]


def elements(input: Tensor, place: Tensor, contract: str) -> Tensor:
    """The elements of `input` at `place`, counted in row-major order."""
    return _ops.embedding(input.reshape(-1, 1), place, -1, False, contract).squeeze(-1)


def at_least_1d(tensor: Tensor) -> Tensor:
    """A 0-D tensor as a vector of one element."""
    return tensor if tensor.dim() else tensor.unsqueeze(0)


def check_places(op: str, index: Tensor, dim: int, **tensors: Tensor) -> None:
    """Raise unless an index has as many dimensions as each tensor, and no more elements in each but `dim`."""
    for name, tensor in tensors.items():
        check_dim(op, index.dim(), **{name: tensor})
        for d, (n, most) in enumerate(zip(index.shape, tensor.shape)):
            check(
                op,
                d == dim or n <= most,
                lambda: f"index.shape[{d}] is {n}, expected at most {most} (= {name}.shape[{d}])",
            )


@public("index_sum")
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, contract: ContractLike = None
) -> Tensor:
    """Elements along `dim`: `(A, B, C), (a, K, c) -> (a, K, c)` for `dim=1`, a <= A, c <= C, as int64 or int32 says.

    `output[i, j, k] = input[i, index[i, j, k], k]`, of any floating-point dtype, of integers and bools. The
    derivative with respect to `input` is the sum over equal indices, in ascending row-major order of `index`.

    Raises:
        ShapeError: if the dimensions of `index` do not fit those of `input`.
        OutOfRangeError: if an index is not from 0 to the size of `dim` less one, or `dim` does not exist.
        UnsupportedError: for `sparse_grad`.
        DTypeError: if `index` is of no integer dtype, or `input` of none of the contract.
    """
    op = "gather"
    if sparse_grad:
        raise UnsupportedError(f"{op}: sparse_grad is True, expected False: gradients are dense")
    dim = normalize_dim(op, dim, input.dim())
    source, at = at_least_1d(input), at_least_1d(index)
    if at.numel():
        check_places(op, at, dim, input=source)
    at = as_index(op, at, source.shape[dim] if source.dim() == at.dim() else 0)
    if is_whole(input.dtype):
        return torch.gather(source, dim, at).view(index.shape)
    check_dtype(op, ALL, input=input)
    if not index.numel():
        at, source = at.reshape(index.shape), source.reshape(-1)
        return elements(source, at, contract)
    return elements(source, places(at, dim, source.shape), contract).view(index.shape)


@public("index_sum")
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, contract: ContractLike = None) -> Tensor:
    """Elements along `dim`, `input` and `indices` broadcast in the others: `(A, B), (1, K) -> (A, K)` for `dim=1`.

    Any floating-point dtype, integers and bools. Without `dim`, elements of the flat `input` at the flat `indices`.
    The derivative with respect to `input` is the sum over equal indices, in ascending row-major order of the output.

    Raises:
        ShapeError: if both have not the same number of dimensions, or do not broadcast.
        OutOfRangeError: if an index is not from -size to size - 1 of `dim`, without `dim` from 0 to size - 1; or
            `dim` does not exist.
        DTypeError: if `indices` is not int64, or `input` of no dtype of the contract.
    """
    op = "take_along_dim"
    check_dtype(op, (torch.int64,), indices=indices)
    wraps = dim is not None
    if dim is None:
        input, indices, dim = input.reshape(-1), indices.reshape(-1), 0
    dim = normalize_dim(op, dim, input.dim())
    check_dim(op, input.dim(), indices=indices)
    source, at = at_least_1d(input), at_least_1d(indices)
    for d, (n, k) in enumerate(zip(source.shape, at.shape)):
        check(
            op,
            d == dim or n == k or 1 in (n, k),
            lambda: f"indices.shape[{d}] is {k}, expected {n} (= input.shape[{d}]) or 1",
        )
    shape = [k if d == dim or n == 1 else n for d, (n, k) in enumerate(zip(source.shape, at.shape))]
    at = as_index(op, at.expand(shape), source.shape[dim], name="indices", wraps=wraps)
    if is_whole(input.dtype):
        repeated = source.expand([*shape[:dim], source.shape[dim], *shape[dim + 1 :]])
        return torch.gather(repeated, dim, at).view(shape if input.dim() else ())
    check_dtype(op, ALL, input=input)
    return elements(source, places(at, dim, source.shape), contract).view(shape if input.dim() else ())


@public("index_sum")
def index_select(input: Tensor, dim: int, index: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Slices of `dim`: `(A, B, C), (K) -> (A, K, C)` for `dim=1`, of int64 or int32 indices.

    Any floating-point dtype, integers and bools. The derivative with respect to `input` is the sum over equal
    indices, in ascending order.

    Raises:
        ShapeError: if `index` has more than one dimension.
        OutOfRangeError: if an index is not from 0 to the size of `dim` less one, or `dim` does not exist.
        DTypeError: if `index` is of no integer dtype, or `input` of none of the contract.
    """
    op = "index_select"
    dim = normalize_dim(op, dim, input.dim())
    check_dim(op, (0, 1), index=index)
    source, at = at_least_1d(input), at_least_1d(index)
    check(op, input.dim() > 0 or at.shape[0] == 1, lambda: f"index.shape is {tuple(index.shape)}, expected 1 element")
    at = as_index(op, at, source.shape[dim])
    if is_whole(input.dtype):
        return torch.index_select(input, dim, at)
    check_dtype(op, ALL, input=input)
    table = source.movedim(dim, 0)
    rows = _ops.embedding(table.reshape(table.shape[0], table[:1].numel()), at, -1, False, contract)
    output = rows.view(at.shape[0], *table.shape[1:]).movedim(0, dim)
    return output.contiguous() if input.dim() else output.squeeze(0)


@public("index_sum", page="tensor_view")
def index(input: Tensor, indices: Sequence[Tensor | None], *, contract: ContractLike = None) -> Tensor:
    """`input[indices]`: `(A, B, C), [(K), (K)] -> (K, C)`, any floating-point dtype, integers and bools.

    The derivative with respect to `input` is the sum over equal indices, in ascending row-major order of the output.

    Args:
        indices: tensors of int64 or int32, from -size to size - 1, masks of bools, or None for a whole dimension.

    Raises:
        ShapeError: if there is no index, or a mask does not fit.
        OutOfRangeError: if an index does not exist.
    """
    op = "index"
    if not is_whole(input.dtype):
        check_dtype(op, ALL, input=input)
    at, rest = indexed(op, input, indices)
    lead = input.shape[: input.dim() - len(rest)]
    table = input.reshape(lead.numel(), torch.Size(rest).numel())
    if is_whole(input.dtype):
        return table[at].view(*at.shape, *rest)
    return _ops.embedding(table, at, -1, False, contract).view(*at.shape, *rest)


@public("index_sum")
def take(input: Tensor, index: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Elements of `input` as a vector, in row-major order: `(A, B), (K, L) -> (K, L)`, of int64 indices.

    Any floating-point dtype, integers and bools. The derivative with respect to `input` is the sum over equal indices,
    in ascending row-major order of `index`.

    Raises:
        OutOfRangeError: if an index is not from -n to n - 1, n the number of elements.
        DTypeError: if `index` is not int64, or `input` of no dtype of the contract.
    """
    op = "take"
    check_dtype(op, (torch.int64,), index=index)
    if not is_whole(input.dtype):
        check_dtype(op, ALL, input=input)
    at = as_index(op, index, input.numel(), wraps=True)
    return input.reshape(-1)[at] if is_whole(input.dtype) else elements(input, at, contract)
