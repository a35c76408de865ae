"""max and min: over all dimensions or over one, and of two tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl import registry
from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_range, check_size
from repdl.ops.common.arithmetic import div
from repdl.ops.common.reduce import as_numpy, is_whole, normalize_dim, reduced_shape
from repdl.ops.common.scalar import floating
from repdl.ops.common.sort_key import sort_key
from repdl.ops.declare.public import public
from repdl.ops.pointwise.cast import narrowed, widened
from repdl.ops.pointwise.elementwise import maximum, minimum

__all__ = ["max", "min"]

_ops = registry.functions


def _check_max(input: torch.Tensor, op: str = "max") -> None:
    check(
        op,
        input.numel() > 0,
        lambda: f"input has no elements (shape {tuple(input.shape)}), expected one at least",
    )


def _setup_max(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, output)


_max = registry.define(
    "max",
    "(Tensor input) -> Tensor",
    check=_check_max,
    fake=lambda input: input.new_empty(()),
    setup_context=_setup_max,
    backward=lambda ctx, grad: _max_backward(grad, *ctx.saved_tensors),
    dtypes=Dtypes(),
)


def _check_max_backward(grad: torch.Tensor, input: torch.Tensor, output: torch.Tensor) -> None:
    for name, tensor in (("grad", grad), ("output", output)):
        check_size("max_backward", f"{name}.shape", tuple(tensor.shape), (), "the shape of max(input)")


def _setup_max_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, input, largest = inputs
    ctx.save_for_backward(sort_key(input) == sort_key(largest))


def _max_twice(ctx: Any, cotangent: torch.Tensor) -> Any:
    (ties,) = ctx.saved_tensors
    storage, (wide,) = widened(cotangent)
    dims = list(range(ties.dim()))
    total = _ops.sum(torch.where(ties, wide, 0.0), dims, False, "v1")  # its order, always
    count = floating(ties.sum(), wide.dtype)
    return narrowed(div(total, count), storage), None, None


_max_backward: Callable[..., torch.Tensor] = registry.define(
    "max_backward",
    "(Tensor grad, Tensor input, Tensor output) -> Tensor",
    check=_check_max_backward,
    fake=lambda grad, input, output: input.new_empty(input.shape),
    setup_context=_setup_max_backward,
    backward=_max_twice,
    dtypes=Dtypes(),
    is_slope=False,
    family="max",
)


def _check_max_dim(input: torch.Tensor, dim: int, keepdim: bool) -> None:
    check("max", 0 <= dim < (input.dim() or 1), lambda: f"dim is {dim}, expected 0 to {(input.dim() or 1) - 1}")
    if input.dim():
        check_range(
            "max",
            input.shape[dim] > 0,
            lambda: f"input.shape[{dim}] is 0, expected 1 or more to take a maximum of",
        )


def _fake_max_dim(input: torch.Tensor, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    shape = reduced_shape(input.shape, [dim], keepdim)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int64)


def _setup_max_dim(ctx: Any, inputs: Any, output: Any) -> None:
    input, ctx.dim, ctx.keepdim = inputs
    ctx.shape = input.shape
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _backward_max_dim(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
    (indices,) = ctx.saved_tensors
    if not ctx.shape:
        return grad, None, None
    if not ctx.keepdim:
        grad, indices = grad.unsqueeze(ctx.dim), indices.unsqueeze(ctx.dim)
    places = torch.arange(ctx.shape[ctx.dim], device=grad.device)
    places = places.view(-1, *(1 for _ in ctx.shape[ctx.dim + 1 :]))
    return torch.where(places == indices, grad, 0.0), None, None


_max_dim = registry.define(
    "max_dim",
    "(Tensor input, int dim, bool keepdim) -> (Tensor, Tensor)",
    check=_check_max_dim,
    fake=_fake_max_dim,
    setup_context=_setup_max_dim,
    backward=_backward_max_dim,
    dtypes=Dtypes(),
    family="max",
)


def _over_dim(op: str, input: torch.Tensor, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
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
        return _max_dim(input, position, keepdim)
    values, indices = _max_dim(_ops.neg(input), position, keepdim)
    return _ops.neg(values), indices


def _of_all(op: str, input: torch.Tensor) -> torch.Tensor:
    """max or min over all dimensions."""
    _check_max(input, op)
    if is_whole(input.dtype):
        return getattr(torch, op)(input)
    return _max(input) if op == "max" else _ops.neg(_max(_ops.neg(input)))


@public("max")
def max(
    input: torch.Tensor,
    dim: int | torch.Tensor | None = None,
    keepdim: bool = False,
    *,
    other: torch.Tensor | None = None,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> torch.Tensor | Sequence[torch.Tensor]:
    """The largest element: `max(input)`, `max(input, dim)` or `max(input, other)`, of floats or integers.

    Over a dimension, a named tuple `(values, indices)`; the index is that of the first of
    equal elements. NaN is larger than everything. The gradient of `max(input)` is shared
    equally between equal elements, that of `max(input, dim)` goes to the index.

    Raises:
        ShapeError: if there is no element to take a maximum of, or `dim` does not exist.
    """
    dim, keepdim = as_numpy("max", dim, keepdim, axis, keepdims)
    if isinstance(dim, torch.Tensor):
        other, dim = dim, None
    if other is not None:
        return maximum(input, other, contract=contract)
    if dim is None:
        return _of_all("max", input)
    return torch.return_types.max(_over_dim("max", input, dim, keepdim))  # type: ignore[no-any-return,attr-defined]


@public("max")
def min(
    input: torch.Tensor,
    dim: int | torch.Tensor | None = None,
    keepdim: bool = False,
    *,
    other: torch.Tensor | None = None,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> torch.Tensor | Sequence[torch.Tensor]:
    """The smallest element: `min(input)`, `min(input, dim)` or `min(input, other)`, of floats or integers.

    `-max(-input)`: over a dimension a named tuple `(values, indices)`, the index that of the first of equal
    elements. NaN is smaller than everything. The gradient of `min(input)` is shared equally between equal
    elements, that of `min(input, dim)` goes to the index.

    Raises:
        ShapeError: if there is no element to take a minimum of, or `dim` does not exist.
    """
    dim, keepdim = as_numpy("min", dim, keepdim, axis, keepdims)
    if isinstance(dim, torch.Tensor):
        other, dim = dim, None
    if other is not None:
        return minimum(input, other, contract=contract)
    if dim is None:
        return _of_all("min", input)
    return torch.return_types.min(_over_dim("min", input, dim, keepdim))  # type: ignore[no-any-return,attr-defined]
