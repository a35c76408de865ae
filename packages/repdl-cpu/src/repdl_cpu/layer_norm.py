"""Glue of layer_norm: (rows, n) contiguous."""

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


def layer_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, bias: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    output, mean, rstd = layout.outputs("layer_norm")(input, normalized_shape, weight, bias, eps, contract)
    input, weight, bias = input.contiguous(), contiguous(weight), contiguous(bias)
    huge_pages(output)
    rows = mean.numel()
    chosen = Contract.parse(contract)
    native(input.dtype).layer_norm(
        input.data_ptr(),
        address(weight),
        address(bias),
        output.data_ptr(),
        mean.data_ptr(),
        rstd.data_ptr(),
        rows,
        input.numel() // rows if rows else 0,
        eps,
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return output, mean, rstd


def layer_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    grad, input, weight = grad.contiguous(), input.contiguous(), contiguous(weight)
    mean, rstd = mean.contiguous(), rstd.contiguous()
    output, grad_weight, grad_bias = layout.outputs("layer_norm_backward")(grad, input, normalized_shape)
    huge_pages(output)
    chosen = Contract.parse(contract)
    native(grad.dtype).layer_norm_backward(
        grad.data_ptr(),
        input.data_ptr(),
        mean.data_ptr(),
        rstd.data_ptr(),
        address(weight),
        output.data_ptr(),
        grad_weight.data_ptr(),
        grad_bias.data_ptr(),
        mean.numel(),
        grad_weight.numel(),
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return output, grad_weight, grad_bias


OPS = {"layer_norm": layer_norm, "layer_norm_backward": layer_norm_backward}
