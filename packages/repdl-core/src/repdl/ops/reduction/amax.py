"""amax and what is made of it: amin, aminmax; and the indices of the largest and smallest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_range, check_size
from repdl.ops.common import (
    as_numpy,
    floating,
    is_whole,
    narrowed,
    normalize_dim,
    normalize_dims,
    reduced_shape,
    rows_of,
    sort_key,
    widened,
)
from repdl.ops.common.arithmetic import div
from repdl.ops.declare import public, variants
from repdl.registry import define, functions as _ops

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin"]


def _check(input: Tensor) -> None:
    check("amax", input.dim() > 0, "input.dim() is 0, expected 1 or more; repdl.ops.amax gives it one")
    rows = input.shape[:-1].numel()
    check("amax", rows == 0 or input.shape[-1] > 0, lambda: f"input.shape[-1] is 0 (shape {tuple(input.shape)})")


define(
    "amax",
    "(Tensor input) -> Tensor",
    check=_check,
    fake=lambda input: input.new_empty(input.shape[:-1]),
    gradients={"input": "amax_backward"},
    dtypes=Dtypes(),
    family="max",
)


def _check_backward(op: str, grad: Tensor, input: Tensor, output: Tensor) -> None:
    _check(input)
    for name, tensor in (("grad", grad), ("output", output)):
        check_size(op, f"{name}.shape", tensor.shape, input.shape[:-1], "the shape of amax(input)")


def mean_of_ties(g: Tensor, ties: Tensor, dims: list[int]) -> Tensor:
    """The mean of what stands at equal elements, over `dims`: the derivative of a gradient that they share."""
    storage, (wide,) = widened(g)
    total = _ops.sum(torch.where(ties, wide, 0.0), dims, False, "v1")  # its order, always
    return narrowed(div(total, floating(ties.sum(dims), wide.dtype)), storage)


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, input, largest = inputs
    ctx.save_for_backward(sort_key(input) == sort_key(largest).unsqueeze(-1))


def _twice(ctx: Any, cotangent: Tensor) -> Any:
    (ties,) = ctx.saved_tensors
    return mean_of_ties(cotangent, ties, [ties.dim() - 1]), None, None


define(
    "amax_backward",
    "(Tensor grad, Tensor input, Tensor output) -> Tensor",
    check=_check_backward,
    fake=lambda input: input.new_empty(input.shape),
    setup_context=_setup_backward,
    backward=_twice,
    dtypes=Dtypes(),
    is_slope=False,
    family="max",
)


def _amax_or_amin(
    op: str,
    input: Tensor,
    dim: int | Sequence[int] = (),
    keepdim: bool = False,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    chosen, keepdim = as_numpy(op, dim if dim != () else None, keepdim, axis, keepdims)
    return _extreme(op, input, chosen, keepdim)


def _extreme(op: str, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """amax or amin of a tensor of floats or integers."""
    dims = normalize_dims(op, dim, input.dim())
    empty = [d for d in dims if input.shape[d] == 0]
    check_range(op, not empty, lambda: f"input.shape[{empty[0]}] is 0, expected 1 or more to take an element of")
    if is_whole(input.dtype):
        return getattr(torch, op)(input, dims, keepdim)
    rows = rows_of(input, dims)
    found = _ops.amax(rows) if op == "amax" else _ops.neg(_ops.amax(_ops.neg(rows)))
    return found.reshape(reduced_shape(input.shape, dims, keepdim))


_DOCS = {
    "amax": """The largest element over all dimensions, or over those in `dim`: `(A, B, C) -> (A, C)` for `dim=1`.

    Floats or integers. NaN is larger than everything. Unlike `max(input, dim)`, which gives it to one, the
    gradient is shared equally between equal elements: each gets it divided by their number, rounded once.

    Raises:
        ShapeError: if a dimension does not exist, is named twice, or has no element.
    """,
    "amin": """The smallest element over all dimensions, or over those in `dim`: `-amax(-input)`, floats or integers.

    A NaN in a row is the result. The gradient is shared equally between equal elements.

    Raises:
        ShapeError: if a dimension does not exist, is named twice, or has no element.
    """,
}
amax, amin = variants(_amax_or_amin, "max", _DOCS)


@public("max")
def aminmax(
    input: Tensor,
    *,
    dim: int | None = None,
    keepdim: bool = False,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> torch.return_types.aminmax:
    """`amin` and `amax` over all dimensions, or over `dim`, as a named tuple `(min, max)`.

    Raises:
        ShapeError: if `dim` does not exist, or there is no element.
    """
    dim, keepdim = as_numpy("aminmax", dim, keepdim, axis, keepdims)
    dims = normalize_dims("aminmax", dim, input.dim()) if dim is None else [normalize_dim("aminmax", dim, input.dim())]
    dims = dims if input.dim() else []
    empty = [d for d in dims if input.shape[d] == 0]
    check_range("aminmax", not empty, lambda: f"input.shape[{empty[0]}] is 0, expected 1 or more to take elements of")
    low, high = (_extreme(op, input, dims or None, keepdim) for op in ("amin", "amax"))
    return torch.return_types.aminmax((low, high))


def _index(
    op: str,
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """The index of the first NaN, or else of the first {} element: over `dim`, or over all in row-major order.

    Raises:
        ShapeError: if `dim` does not exist or has no element.
    """
    dim, keepdim = as_numpy(op, dim, keepdim, axis, keepdims)
    rows, position = (input.reshape(-1), 0) if dim is None else (input, normalize_dim(op, dim, input.dim()))
    what = f"input.shape[{position}]" if dim is not None else "input.numel()"
    check_range(
        op, rows.dim() == 0 or rows.shape[position] > 0, lambda: f"{what} is 0, expected 1 or more to take an index of"
    )
    if is_whole(input.dtype):
        indices = getattr(torch, op)(rows.to(torch.int64), position, keepdim)
    else:
        signed = rows.detach() if op == "argmax" else _ops.neg(rows.detach())
        _, indices = _ops.max_dim(signed, position, keepdim)
    return indices.reshape([1] * input.dim()) if keepdim and dim is None else indices


argmax, argmin = variants(_index, "max", {"argmax": "largest", "argmin": "smallest"})
