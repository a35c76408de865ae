"""Glue of nll_loss: (N, C, inner) contiguous."""

from __future__ import annotations

import torch

from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl.ops._loss import REDUCTIONS, sizes
from repdl.ops._optional import address, contiguous
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    input, target, weight = input.contiguous(), target.contiguous(), contiguous(weight)
    losses, total = input.new_empty(target.shape), input.new_empty(())
    output = losses if reduction == "none" else input.new_empty(())
    chosen = Contract.parse(contract)
    native(input.dtype).nll_loss(
        input.data_ptr(),
        target.data_ptr(),
        address(weight),
        losses.data_ptr(),
        output.data_ptr(),
        total.data_ptr(),
        sizes(target.shape, input.shape[1]),
        ignore_index,
        REDUCTIONS.index(reduction),
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return output, total


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
    output = huge_pages(grad.new_empty((target.shape[0], classes, *target.shape[1:])))
    native(grad.dtype).nll_loss_backward(
        grad.data_ptr(),
        target.data_ptr(),
        address(weight),
        total_weight.data_ptr(),
        output.data_ptr(),
        sizes(target.shape, classes),
        ignore_index,
        REDUCTIONS.index(reduction),
        get_num_threads(),
    )
    return output


OPS = {"nll_loss": nll_loss, "nll_loss_backward": nll_loss_backward}
