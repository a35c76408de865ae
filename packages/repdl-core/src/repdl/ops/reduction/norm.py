"""Norms of vectors, of any order, and distances that they measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes, rounding
from repdl.errors import UnsupportedError, check, check_least_dim, check_range, check_size
from repdl.ops.common import (
    at_zero,
    constant,
    in_dtype,
    narrowed,
    normalize_dims,
    reduced_shape,
    rows_of,
    to_requested_dtype,
    widened,
)
from repdl.ops.declare import public
from repdl.ops.pointwise.elementwise import operands
from repdl.ops.reduction.sum import check_dims
from repdl.registry import FLOAT32, FLOAT32_ON_CUDA, OPS, as_float, composite, computes, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = ["cdist", "norm", "vector_norm"]


_INF = float("inf")


def _formula(x: Tensor, order: float, dim: Sequence[int], keepdim: bool, contract: str) -> Tensor:
    def total(terms: Tensor) -> Tensor:
        return _ops.sum(terms, dim, keepdim, contract)

    if order == 2:
        return _ops.root(_ops.sum_of_squares(x, dim, keepdim, contract))
    size = _ops.abs(x)
    if order == 1:
        return total(size)
    if order in (_INF, -_INF):
        rows, shape = rows_of(size, dim), reduced_shape(x.shape, dim, keepdim)
        if rows.shape[-1] == 0:
            return torch.cat([constant(0.0, x.dtype, x.device).expand(*rows.shape[:-1], 1), rows], -1).reshape(shape)
        extreme = _ops.amax(rows) if order > 0 else _ops.neg(_ops.amax(_ops.neg(rows)))
        return extreme.reshape(shape)
    one = constant(1.0, x.dtype, x.device)
    if order == 0:  # NaN counts, whose sign is 0
        return total(_ops.where(x.detach().isnan(), one, _ops.abs(_ops.sign(x)), contract))
    powers = total(at_zero(size, 0.0 if order > 0 else _INF, lambda a: _ops.pow(a, order), contract))
    return at_zero(powers, 0.0, lambda s: _ops.pow(s, rounding.div(1.0, order)), contract)


def _check(op: str, x: Tensor, ord: float, dim: Sequence[int]) -> None:
    check_dims(op, x, dim)
    empty = any(x.shape[d] == 0 for d in dim)
    check_range(
        op,
        not empty or 0 <= ord < _INF,
        lambda: f"ord is {ord} over dimensions without elements (shape {tuple(x.shape)}), expected 0 or more, finite",
    )


composite(
    "vector_norm",
    "(Tensor x, float ord, int[] dim, bool keepdim, str contract) -> Tensor",
    _formula,
    calls=("sum", "sum_of_squares", "root", "where", "abs", "amax", "neg", "sign", "pow"),
    check=_check,
    dtypes=Dtypes(),
    autocast=FLOAT32_ON_CUDA,
    family="norm",
)


@public("norm", page="generated/torch.linalg.vector_norm")
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """The norm of order `ord` of vectors: all elements, or those along the dimensions in `dim`.

    Any floating-point dtype. The orders 2, 1, 0, inf and -inf are `sqrt(sum(square(x)))`, `sum(abs(x))`, how many are
    not 0, the largest and the smallest of `abs(x)`; any other p is `pow(sum(pow(abs(x), p)), 1 / p)`. The gradient
    where the norm is 0 is 0; equal elements share that of inf and -inf.

    Raises:
        ShapeError: if a dimension does not exist, is named twice, or has no element to take one of.
    """
    op = "vector_norm"
    dims, number = normalize_dims(op, dim, x.dim()), as_float(op, "ord", ord)
    return to_requested_dtype(_ops.vector_norm(in_dtype(op, x, dtype), number, dims, keepdim, contract), dtype)


@public("norm")
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: None = None,
    dtype: torch.dtype | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`vector_norm` of order `p` of all elements, or of those along the dimensions in `dim`; "fro" and None are 2.

    Raises:
        ShapeError: if a dimension does not exist, is named twice, or has no element to take a norm of.
        UnsupportedError: for the nuclear norm, and if `out` is given or `dtype` is no dtype of the contract.
    """
    if out is not None:
        raise UnsupportedError("norm: out is given, expected None: results are new tensors")
    if isinstance(p, str) and p != "fro":
        raise UnsupportedError(f"norm: p is {p!r}, expected 'fro' or a number: singular values are not in the contract")
    number = 2.0 if p is None or isinstance(p, str) else as_float("norm", "p", p)
    dims = normalize_dims("norm", dim, input.dim())
    check("norm", p != "fro" or dim is None or len(dims) <= 2, lambda: f"dim is {dim}, expected one or two for 'fro'")
    return to_requested_dtype(_ops.vector_norm(in_dtype("norm", input, dtype), number, dims, keepdim, contract), dtype)


def _check_pairs(op: str, x1: Tensor, x2: Tensor, p: float) -> None:
    check_least_dim(op, 2, x1=x1, x2=x2)
    check_size(op, "x2.shape[-1]", x2.shape[-1], x1.shape[-1], "x1.shape[-1]")
    broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    if op == "cdist":
        check_range(op, p >= 0, lambda: f"p is {p}, expected 0 or more")
    else:
        check_range(op, p in (1, 2), lambda: f"p is {p}, expected 1 or 2")


def _distances_shape(x1: Tensor, x2: Tensor) -> tuple[int, ...]:
    return (*broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), x1.shape[-2], x2.shape[-2])


def _fake_pairs(x1: Tensor, x2: Tensor) -> Tensor:
    return x1.new_empty(_distances_shape(x1, x2))


def _pairs(x1: Tensor, x2: Tensor, p: float, contract: str) -> Tensor:
    differences = _ops.sub(x1.unsqueeze(-2), x2.unsqueeze(-3), contract)
    if p == _INF and x1.shape[-1] == 0:
        return torch.zeros(differences.shape[:-1], dtype=x1.dtype, device=x1.device)
    return _ops.vector_norm(differences, p, [differences.dim() - 1], False, contract)


def _of_each_pair(x1: Tensor, x2: Tensor, p: float, contract: str) -> Tensor:
    return _ops.row_distances(x1, x2, int(p), contract) if p in (1, 2) else _pairs(x1, x2, p, contract)


def _to_rows(grad: Tensor, x1: Tensor, x2: Tensor, p: int, contract: str) -> Tensor:
    """The gradient of x1 from that of the sums of squares or absolute values."""
    differences = _ops.sub(x1.unsqueeze(-2), x2.unsqueeze(-3), contract)
    slopes = _ops.add(differences, differences, contract) if p == 2 else _ops.sign(differences)
    terms = _ops.mul(grad.unsqueeze(-1), slopes, contract)
    lead = terms.dim() - x1.dim() - 1
    batch = [lead + i for i, size in enumerate(x1.shape[:-2]) if size != terms.shape[lead + i]]
    return _ops.sum(terms, [*range(lead), *batch, terms.dim() - 2], False, contract).reshape(x1.shape)


def _check_gradient(op: str, grad: Tensor, x1: Tensor, x2: Tensor, p: int) -> None:
    _check_pairs(op, x1, x2, p)
    check_size(op, "grad.shape", tuple(grad.shape), _distances_shape(x1, x2), "that of the distances")


composite(
    "row_distances_backward",
    "(Tensor grad, Tensor x1, Tensor x2, int p, str contract) -> Tensor",
    _to_rows,
    calls=("add", "mul", "sign", "sub", "sum"),
    check=_check_gradient,
    fake=lambda x1: torch.empty_like(x1, memory_format=torch.contiguous_format),
    dtypes=Dtypes(),
    family="norm",
)


def _of_sums(
    g: Tensor, output: Tensor, x1: Tensor, x2: Tensor, p: int, contract: str
) -> tuple[torch.dtype, Tensor, Tensor, Tensor]:
    """The dtype of storage, the gradient of the sums of squares or absolute values, and the rows."""
    storage, (wide, distances, first, second) = widened(g, output, x1, x2)
    if p == 2:
        if storage is not wide.dtype:
            distances = _ops.row_distances(first, second, p, contract)
        wide = _ops.root_backward(wide, distances)
    return storage, wide, first, second


def _to_x1(sums: tuple[torch.dtype, Tensor, Tensor, Tensor], p: int, contract: str) -> Tensor:
    storage, g, x1, x2 = sums
    return narrowed(_ops.row_distances_backward(g, x1, x2, p, contract), storage)


def _to_x2(sums: tuple[torch.dtype, Tensor, Tensor, Tensor], p: int, contract: str) -> Tensor:
    storage, g, x1, x2 = sums
    return narrowed(_ops.row_distances_backward(g.transpose(-2, -1), x2, x1, p, contract), storage)


composite(
    "row_distances",
    "(Tensor x1, Tensor x2, int p, str contract) -> Tensor",
    _pairs,
    calls=("root_backward", "row_distances_backward", "sub", *OPS["vector_norm"].calls),
    check=_check_pairs,
    fake=_fake_pairs,
    gradients={"sums": _of_sums, "x1": _to_x1, "x2": _to_x2},
    dtypes=Dtypes(),
    family="norm",
)
composite(
    "cdist",
    "(Tensor x1, Tensor x2, float p, str contract) -> Tensor",
    _of_each_pair,
    calls=("row_distances", *OPS["row_distances"].calls),
    check=_check_pairs,
    dtypes=Dtypes(),
    autocast=FLOAT32,
    family="norm",
)

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@public("norm")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = _MODES[0], *, contract: ContractLike = None
) -> Tensor:
    """Distances of each pair of rows, `vector_norm(x1[i] - x2[j], p)`: `(..., P, M), (..., R, M) -> (..., P, R)`.

    Any floating-point dtype. Differences are computed first, in every `compute_mode`: those of a product lose what
    nearly equal rows differ in.

    Raises:
        ShapeError: if the rows differ in size, or the other dimensions do not broadcast.
    """
    op = "cdist"
    number = as_float(op, "p", p)
    check(op, number >= 0, lambda: f"p is {p}, expected 0 or more")
    check(op, compute_mode in _MODES, lambda: f"compute_mode is {compute_mode!r}, expected one of {', '.join(_MODES)}")
    check(op, min(x1.dim(), x2.dim()) >= 2, lambda: f"x1.dim() is {x1.dim()}, x2.dim() {x2.dim()}, expected 2 or more")
    check_size(op, "x2.shape[-1]", x2.shape[-1], x1.shape[-1], "x1.shape[-1]")
    broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    pair = operands(op, x1, x2, divides=True)
    assert pair is not None
    return _ops.cdist(*pair, number, contract)


@computes("norm")
def _aten_norm(
    input: Tensor, p: float | None = None, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    return vector_norm(input, 2 if p is None else p, dim or None, keepdim, dtype=dtype)


computes("linalg_vector_norm")(vector_norm)
computes("cdist", ignored=("compute_mode",))(cdist)
