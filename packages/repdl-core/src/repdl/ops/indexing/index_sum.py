"""index_sum, the sum over equal indices, and embedding, the selection of rows: each is the derivative of the other."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.callcache import cache_calls
from repdl.contract import ContractLike
from repdl.dtypes import FLOATS_16_BIT, Dtypes
from repdl.errors import DTypeError, UnsupportedError, check, check_dim, check_dtype, check_range
from repdl.ops.common import as_index, check_index, check_rows, narrowed
from repdl.ops.declare import public
from repdl.ops.indexing._renorm import check_norm, renorm
from repdl.registry import as_int, computes, define, functions as _ops

__all__ = ["embedding"]


define(
    "index_sum",
    "(Tensor values, Tensor index, int size, str contract) -> Tensor",
    check=check_rows,
    check_values=check_index,
    fake=lambda values, size: values.new_empty((size, values.shape[1])),
    gradients={"values": lambda g, index, contract: _ops.embedding(g, index, -1, False, contract)},
    dtypes=Dtypes(integers=("index",)),
)


def _check(op: str, weight: Tensor, index: Tensor, padding_idx: int) -> None:
    check_dtype(op, (torch.int64,), index=index)
    check_dim(op, 2, weight=weight)
    last = weight.shape[0] - 1
    check(op, -1 <= padding_idx <= last, lambda: f"padding_idx is {padding_idx}, expected -1 (none) to {last}")


def to_table(
    g: Tensor, index: Tensor, weight_shape: torch.Size, padding_idx: int, scale_grad_by_freq: bool, contract: str
) -> Tensor:
    """The derivative of `embedding` with respect to its table."""
    terms = index.reshape(-1)
    size = rows = weight_shape[0]
    if padding_idx >= 0:  # a row of its own for what does not count, which is cut off again
        terms, rows = terms.masked_fill(terms == padding_idx, size), size + 1
    wide = scale_grad_by_freq and g.dtype in FLOATS_16_BIT  # the quotient is rounded, not the sum before it
    values = g.reshape(terms.shape[0], g.shape[-1])
    total = _ops.index_sum(_ops.cast(values, torch.float32) if wide else values, terms, rows, contract)
    if padding_idx >= 0:
        total = total.narrow(0, 0, size)
    if scale_grad_by_freq:
        counts = torch.zeros(rows, dtype=torch.int64, device=terms.device)
        counts = counts.scatter_add(0, terms, torch.ones_like(terms))[:size].clamp(min=1)  # integers: exact
        total = _ops.div(total, counts.to(total.dtype).unsqueeze(1), contract)
    return narrowed(total, g.dtype)


define(
    "embedding",
    "(Tensor weight, Tensor index, int padding_idx, bool scale_grad_by_freq, str contract) -> Tensor",
    check=_check,
    check_values=lambda op, weight, index: check_index(op, index, weight.shape[0]),
    fake=lambda weight, index: weight.new_empty((*index.shape, weight.shape[1])),
    gradients={"weight": to_table},
    is_slope=lambda padding_idx, scale_grad_by_freq: padding_idx < 0 and not scale_grad_by_freq,
    dtypes=Dtypes(integers=("index",), keeps_16_bit=True),
    family="index_sum",
)


@public("index_sum")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Rows of a table: `(...), (V, D) -> (..., D)`, any floating-point dtype, of int64 or int32 indices.

    Args:
        input: indices of rows, from 0 to V - 1.
        weight: the table, (V, D).
        padding_idx: a row, from -V to V - 1, that gets no gradient; None: every row gets one.
        max_norm, norm_type: each row that is selected, and whose `norm_type`-norm is above `max_norm`, is multiplied
            by `max_norm / (norm + 1e-7)` first, in place; None: no row is.
        scale_grad_by_freq: divide the gradient of each row by how often it is selected.
        sparse: False: gradients are dense.

    Raises:
        ShapeError: if `weight` is not 2-D.
        OutOfRangeError: if an index or `padding_idx` is no row.
        UnsupportedError: for `sparse`.
        DTypeError: if `input` is of no integer dtype, or `weight` of none of the contract.
    """
    op = "embedding"
    if input.dtype not in (torch.int64, torch.int32):
        raise DTypeError(
            f"{op}: input.dtype is {str(input.dtype).removeprefix('torch.')}, expected int64 or int32, the indices "
            f"of rows; convert it first, for example input.long()"
        )
    check_dim(op, 2, weight=weight)
    most, norm = check_norm(op, max_norm, norm_type)
    if sparse:
        raise UnsupportedError(f"{op}: sparse is True, expected False: gradients are dense; use sparse=False")
    padding, size = -1, weight.shape[0]
    if padding_idx is not None:
        padding = as_int(op, "padding_idx", padding_idx)
        check_range(op, -size <= padding < size, lambda: f"padding_idx is {padding}, expected {-size} to {size - 1}")
        padding %= size
    if most is not None:
        renorm(weight, as_index(op, input, size), most, norm, contract)
    return _ops.embedding(weight, input.long(), padding, scale_grad_by_freq, contract)


@computes("embedding")
@cache_calls
def _aten_embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    place = None if padding_idx == -1 else padding_idx
    return embedding(indices, weight, place, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
