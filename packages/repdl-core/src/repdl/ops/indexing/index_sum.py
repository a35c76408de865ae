"""index_sum, the sum over equal indices, and embedding, the selection of rows: each is the derivative of the other."""

from __future__ import annotations

from typing import Any

import torch

from repdl import registry
from repdl.callcache import cache_calls
from repdl.contract import ContractLike
from repdl.dtypes import FLOATS_16_BIT, Dtypes
from repdl.errors import (
    DTypeError,
    UnsupportedError,
    check,
    check_dim,
    check_dtype,
    check_range,
    check_size,
)
from repdl.ops.common.index import as_index, check_index
from repdl.ops.declare.public import public
from repdl.ops.indexing._renorm import check_norm, renorm
from repdl.ops.pointwise.cast import narrowed
from repdl.registry.arguments import as_int
from repdl.registry.aten import computes

__all__ = ["embedding"]

Tensor = torch.Tensor


def _check_sum(values: torch.Tensor, index: torch.Tensor, size: int, contract: str) -> None:
    check_dtype("index_sum", (torch.int64,), index=index)
    check_dim("index_sum", 2, values=values)
    check_dim("index_sum", 1, index=index)
    check_size("index_sum", "index.shape[0]", index.shape[0], values.shape[0], "values.shape[0]")
    check("index_sum", size >= 0, lambda: f"size is {size}, expected 0 or more")


def _setup_sum(ctx: Any, inputs: Any, output: Any) -> None:
    _, index, _, ctx.contract = inputs
    ctx.save_for_backward(index)


def _sum_backward(ctx: Any, grad: torch.Tensor) -> Any:
    (index,) = ctx.saved_tensors
    return _embedding(grad, index, -1, False, ctx.contract), None, None, None


_index_sum = registry.define(
    "index_sum",
    "(Tensor values, Tensor index, int size, str contract) -> Tensor",
    check=_check_sum,
    check_values=lambda values, index, size, contract: check_index("index_sum", index, size),
    fake=lambda values, index, size, contract: values.new_empty((size, values.shape[1])),
    setup_context=_setup_sum,
    backward=_sum_backward,
    dtypes=Dtypes(integers=("index",)),
)


def _check(weight: torch.Tensor, index: torch.Tensor, padding: int, by_freq: bool, contract: str) -> None:
    check_dtype("embedding", (torch.int64,), index=index)
    check_dim("embedding", 2, weight=weight)
    check(
        "embedding",
        -1 <= padding < weight.shape[0],
        lambda: f"padding_idx is {padding}, expected -1 (none) to {weight.shape[0] - 1}",
    )


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    weight, index, ctx.padding, ctx.by_freq, ctx.contract = inputs
    ctx.size = weight.shape[0]
    ctx.save_for_backward(index)


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    (index,) = ctx.saved_tensors
    terms = index.reshape(-1)
    size, rows = ctx.size, ctx.size
    if ctx.padding >= 0:  # a row of its own for what does not count, which is cut off again
        terms, rows = terms.masked_fill(terms == ctx.padding, size), size + 1
    functions, dtype = registry.functions, grad.dtype
    wide = ctx.by_freq and dtype in FLOATS_16_BIT  # the quotient is rounded, not the sum before it
    values = grad.reshape(terms.shape[0], grad.shape[-1])
    total = _index_sum(functions.cast(values, torch.float32) if wide else values, terms, rows, ctx.contract)
    if ctx.padding >= 0:
        total = total.narrow(0, 0, size)
    if ctx.by_freq:
        counts = torch.zeros(rows, dtype=torch.int64, device=terms.device)
        counts = counts.scatter_add(0, terms, torch.ones_like(terms))[:size].clamp(min=1)  # integers: exact
        total = functions.div(total, counts.to(total.dtype).unsqueeze(1), ctx.contract)
    return narrowed(total, dtype), None, None, None, None


_embedding = registry.define(
    "embedding",
    "(Tensor weight, Tensor index, int padding_idx, bool scale_grad_by_freq, str contract) -> Tensor",
    check=_check,
    check_values=lambda weight, index, padding, by_freq, contract: check_index("embedding", index, weight.shape[0]),
    fake=lambda weight, index, padding, by_freq, contract: weight.new_empty((*index.shape, weight.shape[1])),
    setup_context=_setup_context,
    backward=_backward,
    is_slope=lambda weight, index, padding, by_freq, contract: padding < 0 and not by_freq,
    dtypes=Dtypes(integers=("index",), keeps_16_bit=True),
    family="index_sum",
)


@public("index_sum")
def embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    contract: ContractLike = None,
) -> torch.Tensor:
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
    return _embedding(weight, input.long(), padding, scale_grad_by_freq, contract)


@computes("embedding")
@cache_calls
def _aten_embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    place = None if padding_idx == -1 else padding_idx
    return embedding(indices, weight, place, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
