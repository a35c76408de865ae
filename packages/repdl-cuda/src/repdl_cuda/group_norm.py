"""Glue of group_norm: a row for each group of each batch element."""

from __future__ import annotations

import torch

from repdl import layout
from repdl_cuda.norm_rows import Optional, gradients, normalise


def _sizes(input: torch.Tensor, num_groups: int) -> list[int]:
    return [input.shape[0], num_groups, input.shape[1] // num_groups, input.shape[2:].numel()]


def group_norm(
    input: torch.Tensor, num_groups: int, weight: Optional, bias: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    output, mean, rstd = layout.outputs("group_norm")(input, num_groups, weight, bias, eps, contract)
    sizes = _sizes(input, num_groups)
    return normalise("group_norm", output, mean, rstd, input, weight, bias, sizes, eps, contract), mean, rstd


def group_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    num_groups: int,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    sizes = _sizes(input, num_groups)
    op = "group_norm_backward"
    output, grad_weight, grad_bias = layout.outputs(op)(grad, input)
    result = gradients(op, output, grad_weight, grad_bias, grad, input, mean, rstd, weight, sizes, contract)
    return result, grad_weight, grad_bias


OPS = {"group_norm": group_norm, "group_norm_backward": group_norm_backward}
