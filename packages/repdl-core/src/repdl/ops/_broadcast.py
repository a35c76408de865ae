"""Gradients of broadcast operands."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def sum_to(grad: torch.Tensor, shape: Sequence[int], contract: str) -> torch.Tensor:
    """The gradient of an operand of `shape` that was broadcast to `grad.shape`.

    It is the contract's sum over the broadcast dimensions, in row-major order.
    """
    if grad.shape == torch.Size(shape):
        return grad
    lead = grad.dim() - len(shape)
    dims = [*range(lead), *(lead + i for i, n in enumerate(shape) if n == 1 and grad.shape[lead + i] != 1)]
    summed = torch.ops.repdl.sum(grad, dims, True, contract)
    return summed.reshape(shape)
