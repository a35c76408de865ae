"""Glue of cross_entropy: one contiguous row of logits a target."""

from __future__ import annotations

import torch

from repdl.contract import Contract
from repdl.ops._loss import REDUCTIONS
from repdl.ops._optional import address, contiguous
from repdl_cuda.native import native, stream, workspace
from repdl_cuda.nll_loss import reduce


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    rows, target, weight = input.movedim(1, -1).contiguous(), target.contiguous(), contiguous(weight)
    losses = rows.new_empty(target.shape)
    weights = None if weight is None else workspace(rows, target.numel())
    max, sum = torch.empty_like(losses), torch.empty_like(losses)
    chosen = Contract.parse(contract)
    native(rows).cross_entropy(
        rows.data_ptr(),
        target.data_ptr(),
        address(weight),
        losses.data_ptr(),
        address(weights),
        max.data_ptr(),
        sum.data_ptr(),
        target.numel(),
        rows.shape[-1],
        ignore_index,
        chosen.sum_lanes,
        chosen.sum_block,
        stream(rows),
    )
    return *reduce(losses, weights, target, reduction, ignore_index, contract), max, sum


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
    rows, target, weight = input.movedim(1, -1).contiguous(), target.contiguous(), contiguous(weight)
    grad, max, sum = grad.contiguous(), max.contiguous(), sum.contiguous()
    output = torch.empty_like(rows)
    native(rows).cross_entropy_backward(
        grad.data_ptr(),
        rows.data_ptr(),
        target.data_ptr(),
        address(weight),
        total_weight.data_ptr(),
        max.data_ptr(),
        sum.data_ptr(),
        output.data_ptr(),
        target.numel(),
        rows.shape[-1],
        ignore_index,
        REDUCTIONS.index(reduction),
        stream(rows),
    )
    return output.movedim(-1, 1).contiguous()


OPS = {"cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward}
