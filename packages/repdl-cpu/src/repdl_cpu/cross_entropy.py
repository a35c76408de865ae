"""Glue of cross_entropy: one contiguous row of logits a target."""

from __future__ import annotations

import torch

from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl.ops._loss import REDUCTIONS
from repdl.ops._optional import address, contiguous
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def _rows(input: torch.Tensor) -> torch.Tensor:
    """The logits of a target side by side."""
    return (input if input.dim() == 2 else input.movedim(1, -1)).contiguous()


def _sizes(target: torch.Tensor, classes: int) -> list[int]:
    return [target.numel(), classes, 1]


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    rows, target, weight = _rows(input), target.contiguous(), contiguous(weight)
    losses, total = rows.new_empty(target.shape), rows.new_empty(())
    max, sum = torch.empty_like(losses), torch.empty_like(losses)
    output = losses if reduction == "none" else rows.new_empty(())
    chosen = Contract.parse(contract)
    native().cross_entropy(
        rows.data_ptr(),
        target.data_ptr(),
        address(weight),
        losses.data_ptr(),
        output.data_ptr(),
        total.data_ptr(),
        max.data_ptr(),
        sum.data_ptr(),
        _sizes(target, rows.shape[-1]),
        ignore_index,
        REDUCTIONS.index(reduction),
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return output, total, max, sum


def cross_entropy_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    max: torch.Tensor,
    sum: torch.Tensor,
    reduction: str,
    ignore_index: int,
) -> torch.Tensor:
    rows, target, weight = _rows(input), target.contiguous(), contiguous(weight)
    grad, max, sum = grad.contiguous(), max.contiguous(), sum.contiguous()
    output = huge_pages(torch.empty_like(rows))
    native().cross_entropy_backward(
        grad.data_ptr(),
        rows.data_ptr(),
        target.data_ptr(),
        address(weight),
        total_weight.data_ptr(),
        max.data_ptr(),
        sum.data_ptr(),
        output.data_ptr(),
        _sizes(target, rows.shape[-1]),
        ignore_index,
        REDUCTIONS.index(reduction),
        get_num_threads(),
    )
    return output.movedim(-1, 1).contiguous()


OPS = {"cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward}
