"""What norms share: of layer_norm and rms_norm the rows, of layer_norm and group_norm the derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl import registry
from repdl.errors import check, check_size


def check_normalized_shape(
    op: str, input: torch.Tensor, normalized_shape: Sequence[int], **vectors: torch.Tensor | None
) -> None:
    """Raise unless normalized_shape is the end of input's shape, and the shape of each vector."""
    shape = tuple(normalized_shape)
    check(op, len(shape) > 0, "normalized_shape is empty, expected one dimension or more")
    check(
        op,
        input.dim() >= len(shape),
        lambda: (
            f"input.dim() is {input.dim()} (shape {tuple(input.shape)}), "
            f"expected {len(shape)} or more (= the dimensions of normalized_shape)"
        ),
    )
    end = tuple(input.shape[input.dim() - len(shape) :])
    check_size(op, f"input.shape[-{len(shape)}:]", end, shape, "normalized_shape")
    for name, vector in vectors.items():
        if vector is not None:
            check_size(op, f"{name}.shape", tuple(vector.shape), shape, "normalized_shape")


def statistics_shape(input: torch.Tensor, normalized_shape: Sequence[int]) -> list[int]:
    """`(..., *normalized_shape) -> (..., 1, ..., 1)`."""
    rows = input.dim() - len(normalized_shape)
    return [*input.shape[:rows], *(1 for _ in normalized_shape)]


def setup_affine(ctx: Any, inputs: Any, output: Any) -> None:
    """The context of `(input, rows, weight, bias, eps, contract) -> (output, mean, rstd)`."""
    input, ctx.rows, weight, bias, _, ctx.contract = inputs
    ctx.has_bias = bias is not None
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(input, weight, *output[1:])


def affine_backward(name: str) -> Callable[..., Any]:
    """The derivative of such a norm by its backward op of that name."""

    def backward(ctx: Any, grad: torch.Tensor, *_: Any) -> Any:
        input, weight, mean, rstd = ctx.saved_tensors
        op = getattr(registry.functions, name)
        grad_input, grad_weight, grad_bias = op(grad, input, ctx.rows, mean, rstd, weight, ctx.contract)
        has_weight = weight is not None
        return grad_input, None, grad_weight if has_weight else None, grad_bias if ctx.has_bias else None, None, None

    return backward


def setup_affine_backward(ctx: Any, inputs: Any, output: Any) -> None:
    """The context of the backward op itself."""
    grad, input, ctx.rows, mean, rstd, weight, ctx.contract = inputs
    ctx.save_for_backward(grad, input, mean, rstd, weight)
