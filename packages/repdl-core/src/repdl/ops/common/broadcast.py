"""Broadcasting and its gradient: the contract's sum, never torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.registry import functions as _ops

__all__ = ["expand_to", "sum_to"]


def sum_to(grad: Tensor, shape: Sequence[int], contract: str) -> Tensor:
    """The gradient of an operand of `shape` that was broadcast to `grad.shape`.

    It is the contract's sum over the broadcast dimensions, in row-major order.
    """
    if grad.shape == torch.Size(shape):
        return grad
    lead = grad.dim() - len(shape)
    dims = [*range(lead), *(lead + i for i, n in enumerate(shape) if n == 1 and grad.shape[lead + i] != 1)]
    summed = _ops.sum(grad, dims, True, contract)
    return summed.reshape(shape)


class _Expand(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(tensor: Tensor, shape: Sequence[int], contract: str) -> Tensor:
        return tensor.expand(shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        tensor, _, ctx.contract = inputs
        ctx.shape = tensor.shape

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return sum_to(grad, ctx.shape, ctx.contract), None, None


def expand_to(tensor: Tensor, shape: Sequence[int], contract: str) -> Tensor:
    """`tensor.expand(shape)` whose derivative is `sum_to`; for use in backward formulas.

    The derivative of torch's own expand is torch's sum, whose order is not the contract's.
    """
    if tensor.shape == torch.Size(shape):
        return tensor
    if torch.is_grad_enabled() and tensor.requires_grad:
        return _Expand.apply(tensor, shape, contract)  # type: ignore[no-any-return, no-untyped-call]
    return tensor.expand(shape)
