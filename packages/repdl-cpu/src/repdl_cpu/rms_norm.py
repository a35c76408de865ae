"""Glue of rms_norm: (rows, n) contiguous."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl.ops._optional import address, contiguous
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native

Optional = torch.Tensor | None


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    output, rstd = layout.outputs("rms_norm")(input, normalized_shape, weight, eps, contract)
    input, weight = input.contiguous(), contiguous(weight)
    result, rows = huge_pages(layout.row_major(output)), rstd.numel()
    chosen = Contract.parse(contract)
    native(input.dtype).rms_norm(
        input.data_ptr(),
        address(weight),
        result.data_ptr(),
        rstd.data_ptr(),
        rows,
        input.numel() // rows if rows else 0,
        eps,
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return layout.stored(result, output), rstd


def rms_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    output, grad_weight = layout.outputs("rms_norm_backward")(grad, input, normalized_shape)
    grad, input, weight, rstd = grad.contiguous(), input.contiguous(), contiguous(weight), rstd.contiguous()
    result = huge_pages(layout.row_major(output))
    chosen = Contract.parse(contract)
    native(grad.dtype).rms_norm_backward(
        grad.data_ptr(),
        input.data_ptr(),
        rstd.data_ptr(),
        address(weight),
        result.data_ptr(),
        grad_weight.data_ptr(),
        rstd.numel(),
        grad_weight.numel(),
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return layout.stored(result, output), grad_weight


OPS = {"rms_norm": rms_norm, "rms_norm_backward": rms_norm_backward}
