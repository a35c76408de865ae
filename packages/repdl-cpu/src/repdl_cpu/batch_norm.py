"""Glue of batch_norm: (N, C, inner) contiguous."""

from __future__ import annotations

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl.ops._optional import address, contiguous
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native

Optional = torch.Tensor | None


def _sizes(input: torch.Tensor) -> list[int]:
    return [input.shape[0], input.shape[1], input.shape[2:].numel()]


def batch_norm(
    input: torch.Tensor,
    running_mean: Optional,
    running_var: Optional,
    weight: Optional,
    bias: Optional,
    training: bool,
    momentum: float,
    eps: float,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    output, *made = layout.outputs("batch_norm")(
        input, running_mean, running_var, weight, bias, training, momentum, eps, contract
    )
    input = input.contiguous()
    given = [contiguous(t) for t in (running_mean, running_var, weight, bias)]
    rows = huge_pages(layout.row_major(output))
    chosen = Contract.parse(contract)
    native(input.dtype).batch_norm(
        input.data_ptr(),
        rows.data_ptr(),
        [address(t) for t in given],
        [t.data_ptr() for t in made],
        _sizes(input),
        training,
        momentum,
        eps,
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return layout.stored(rows, output), *made


def batch_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    weight: Optional,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    training: bool,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    output, grad_weight, grad_bias = layout.outputs("batch_norm_backward")(grad, input)
    grad, input, weight = grad.contiguous(), input.contiguous(), contiguous(weight)
    mean, invstd = mean.contiguous(), invstd.contiguous()
    rows = huge_pages(layout.row_major(output))
    chosen = Contract.parse(contract)
    native(grad.dtype).batch_norm_backward(
        grad.data_ptr(),
        input.data_ptr(),
        address(weight),
        mean.data_ptr(),
        invstd.data_ptr(),
        rows.data_ptr(),
        grad_weight.data_ptr(),
        grad_bias.data_ptr(),
        _sizes(input),
        training,
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return layout.stored(rows, output), grad_weight, grad_bias


OPS = {"batch_norm": batch_norm, "batch_norm_backward": batch_norm_backward}
