"""Glue of group_norm: (N, groups, channels of a group, inner) contiguous."""

from __future__ import annotations

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl.ops._optional import address, contiguous
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native

Optional = torch.Tensor | None


def _sizes(input: torch.Tensor, num_groups: int) -> list[int]:
    return [input.shape[0], num_groups, input.shape[1] // num_groups, input.shape[2:].numel()]


def group_norm(
    input: torch.Tensor, num_groups: int, weight: Optional, bias: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    output, mean, rstd = layout.outputs("group_norm")(input, num_groups, weight, bias, eps, contract)
    input, weight, bias = input.contiguous(), contiguous(weight), contiguous(bias)
    rows = huge_pages(layout.row_major(output))
    chosen = Contract.parse(contract)
    native(input.dtype).group_norm(
        input.data_ptr(),
        address(weight),
        address(bias),
        rows.data_ptr(),
        mean.data_ptr(),
        rstd.data_ptr(),
        _sizes(input, num_groups),
        eps,
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return layout.stored(rows, output), mean, rstd


def group_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    num_groups: int,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    output, grad_weight, grad_bias = layout.outputs("group_norm_backward")(grad, input)
    grad, input, weight = grad.contiguous(), input.contiguous(), contiguous(weight)
    mean, rstd = mean.contiguous(), rstd.contiguous()
    rows = huge_pages(layout.row_major(output))
    chosen = Contract.parse(contract)
    native(grad.dtype).group_norm_backward(
        grad.data_ptr(),
        input.data_ptr(),
        mean.data_ptr(),
        rstd.data_ptr(),
        address(weight),
        rows.data_ptr(),
        grad_weight.data_ptr(),
        grad_bias.data_ptr(),
        _sizes(input, num_groups),
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return layout.stored(rows, output), grad_weight, grad_bias


OPS = {"group_norm": group_norm, "group_norm_backward": group_norm_backward}
