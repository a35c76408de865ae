"""max and min: over all dimensions or over one, and of two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_range, check_size
from repdl.ops.common import OfAllOverDimOrOfTwo, as_numpy, is_whole, normalize_dim, reduced_shape, sort_key
from repdl.ops.declare import variants
from repdl.ops.pointwise.elementwise import maximum, minimum
from repdl.ops.reduction.amax import mean_of_ties
from repdl.registry import define, functions as _ops

__all__ = ["max", "min"]


def _check_max(op: str, input: Tensor) -> None:
    shape = tuple(input.shape)
    check(op, input.numel() > 0, lambda: f"input has no elements (shape {shape}), expected one at least")


define(
    "max",
    "(Tensor input) -> Tensor",
    check=_check_max,
    fake=lambda input: input.new_empty(()),
    gradients={"input": "max_backward"},
    dtypes=Dtypes(),
)


def _check_max_backward(op: str, grad: Tensor, output: Tensor) -> None:
    for name, tensor in (("grad", grad), ("output", output)):
        check_size(op, f"{name}.shape", tensor.shape, (), "the shape of max(input)")


def _setup_max_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, input, largest = inputs
    ctx.save_for_backward(sort_key(input) == sort_key(largest))


def _max_twice(ctx: Any, cotangent: Tensor) -> Any:
    (ties,) = ctx.saved_tensors
    return mean_of_ties(cotangent, ties, list(range(ties.dim()))), None, None


define(
    "max_backward",
    "(Tensor grad, Tensor input, Tensor output) -> Tensor",
    check=_check_max_backward,
    fake=lambda input: input.new_empty(input.shape),
    setup_context=_setup_max_backward,
    backward=_max_twice,
    dtypes=Dtypes(),
    is_slope=False,
    family="max",
)


def _check_max_dim(input: Tensor, dim: int) -> None:
    check("max", 0 <= dim < (input.dim() or 1), lambda: f"dim is {dim}, expected 0 to {(input.dim() or 1) - 1}")
    has_any = input.dim() == 0 or input.shape[dim] > 0
    check_range("max", has_any, lambda: f"input.shape[{dim}] is 0, expected 1 or more to take a maximum of")


def _fake_max_dim(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    shape = reduced_shape(input.shape, [dim], keepdim)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int64)


def _to_largest(g: Tensor, indices: Tensor, input_shape: torch.Size, dim: int, keepdim: bool) -> Tensor:
    if not input_shape:
        return g
    if not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    places = torch.arange(input_shape[dim], device=g.device)
    return torch.where(places.view(-1, *(1 for _ in input_shape[dim + 1 :])) == indices, g, 0.0)


define(
    "max_dim",
    "(Tensor input, int dim, bool keepdim) -> (Tensor output, Tensor indices)",
    check=_check_max_dim,
    fake=_fake_max_dim,
    gradients={"input": _to_largest},
    dtypes=Dtypes(),
    family="max",
)


def _over_dim(op: str, input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Values and first indices of max or min over one dimension."""
    position = normalize_dim(op, dim, input.dim())
    if input.dim():
        size = input.shape[position]
        check_range(op, size > 0, lambda: f"input.shape[{position}] is 0, expected 1 or more to take a {op}imum of")
    if is_whole(input.dtype):
        # torch.max leaves open which of equal elements it takes, torch.argmax takes the first.
        indices = getattr(torch, f"arg{op}")(input.to(torch.int64), position, keepdim)
        return getattr(torch, f"a{op}")(input, position, keepdim), indices
    if op == "max":
        return _ops.max_dim(input, position, keepdim)
    values, indices = _ops.max_dim(_ops.neg(input), position, keepdim)
    return _ops.neg(values), indices


def _of_all(op: str, input: Tensor) -> Tensor:
    """max or min over all dimensions."""
    _check_max(op, input)
    if is_whole(input.dtype):
        return getattr(torch, op)(input)
    return _ops.max(input) if op == "max" else _ops.neg(_ops.max(_ops.neg(input)))


def _max_or_min(
    op: str,
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor | Sequence[Tensor]:
    dim, keepdim = as_numpy(op, dim, keepdim, axis, keepdims)
    if isinstance(dim, Tensor):
        other, dim = dim, None
    if other is not None:
        return (maximum if op == "max" else minimum)(input, other, contract=contract)
    if dim is None:
        return _of_all(op, input)
    return getattr(torch.return_types, op)(_over_dim(op, input, dim, keepdim))  # type: ignore[no-any-return]


_DOCS = {
    "max": """The largest element: `max(input)`, `max(input, dim)` or `max(input, other)`, of floats or integers.

    Over a dimension, a named tuple `(values, indices)`; the index is that of the first of
    equal elements. NaN is larger than everything. The gradient of `max(input)` is shared
    equally between equal elements, that of `max(input, dim)` goes to the index.

    Raises:
        ShapeError: if there is no element to take a maximum of, or `dim` does not exist.
    """,
    "min": """The smallest element: `min(input)`, `min(input, dim)` or `min(input, other)`, of floats or integers.

    `-max(-input)`: over a dimension a named tuple `(values, indices)`, the index that of the first of equal
    elements. NaN is smaller than everything. The gradient of `min(input)` is shared equally between equal
    elements, that of `min(input, dim)` goes to the index.

    Raises:
        ShapeError: if there is no element to take a minimum of, or `dim` does not exist.
    """,
}
max, min = (cast(OfAllOverDimOrOfTwo, function) for function in variants(_max_or_min, "max", _DOCS))
