"""Glue of group_norm: a row for each group of each batch element."""

from __future__ import annotations

import torch

from repdl_cuda.norm_rows import Optional, gradients, normalise


def _sizes(input: torch.Tensor, num_groups: int) -> list[int]:
    return [input.shape[0], num_groups, input.shape[1] // num_groups, input.shape[2:].numel()]


def group_norm(
    input: torch.Tensor, num_groups: int, weight: Optional, bias: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    mean, rstd = (input.new_empty(input.shape[0], num_groups) for _ in "mr")
    sizes = _sizes(input, num_groups)
    return normalise("group_norm", input, weight, bias, mean, rstd, sizes, eps, contract), mean, rstd


def group_norm_backward(
    grad: torch.Tensor, input: torch.Tensor, num_groups: int, mean: torch.Tensor, rstd: torch.Tensor,
    weight: Optional, contract: str,
) -> tuple[torch.Tensor, ...]:
    shape, sizes = input.shape[1:2], _sizes(input, num_groups)
    return gradients("group_norm_backward", grad, input, mean, rstd, weight, shape, sizes, contract)


OPS = {"group_norm": group_norm, "group_norm_backward": group_norm_backward}
