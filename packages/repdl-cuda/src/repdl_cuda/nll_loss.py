"""Glue of nll_loss: (N, C, inner) contiguous; losses of the positions, then their sums."""

from __future__ import annotations

import torch

from repdl.ops._loss import REDUCTIONS, sizes
from repdl.ops._optional import address, contiguous
from repdl_cuda.native import NATIVE, native, stream, workspace
from repdl_cuda.sum import sum


def reduce(
    losses: torch.Tensor,
    weights: torch.Tensor | None,
    target: torch.Tensor,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses of all positions reduced, and the total weight; `weights` are those of the positions."""
    total = (
        (target != ignore_index).sum().to(losses.dtype)  # a count, rounded once
        if weights is None
        else sum(weights, [0], False, contract)
    )
    if reduction == "none":
        return losses, total
    loss = sum(losses.view(-1), [0], False, contract)
    if reduction == "mean":
        NATIVE.call("div", loss, (loss, total), (loss,))
    return loss, total


def nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    input, target, weight = input.contiguous(), target.contiguous(), contiguous(weight)
    losses = input.new_empty(target.shape)
    weights = None if weight is None else workspace(input, target.numel())
    native(input).nll_loss(
        input.data_ptr(),
        target.data_ptr(),
        address(weight),
        losses.data_ptr(),
        address(weights),
        sizes(target.shape, input.shape[1]),
        ignore_index,
        stream(input),
    )
    return reduce(losses, weights, target, reduction, ignore_index, contract)


def nll_loss_backward(
    grad: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    classes: int,
    reduction: str,
    ignore_index: int,
) -> torch.Tensor:
    grad, target, weight = grad.contiguous(), target.contiguous(), contiguous(weight)
    output = grad.new_empty((target.shape[0], classes, *target.shape[1:]))
    native(grad).nll_loss_backward(
        grad.data_ptr(),
        target.data_ptr(),
        address(weight),
        total_weight.data_ptr(),
        output.data_ptr(),
        sizes(target.shape, classes),
        ignore_index,
        REDUCTIONS.index(reduction),
        stream(grad),
    )
    return output


OPS = {"nll_loss": nll_loss, "nll_loss_backward": nll_loss_backward}
