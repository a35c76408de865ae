"""Glue of layer_norm: a row for each element of the dimensions before normalized_shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from repdl import layout
from repdl_cuda.norm_rows import Optional, gradients, normalise


def layer_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, bias: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    output, mean, rstd = layout.outputs("layer_norm")(input, normalized_shape, weight, bias, eps, contract)
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    return normalise("layer_norm", output, mean, rstd, input, weight, bias, sizes, eps, contract), mean, rstd


def layer_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    op = "layer_norm_backward"
    output, grad_weight, grad_bias = layout.outputs(op)(grad, input, normalized_shape)
    result = gradients(op, output, grad_weight, grad_bias, grad, input, mean, rstd, weight, sizes, contract)
    return result, grad_weight, grad_bias


OPS = {"layer_norm": layer_norm, "layer_norm_backward": layer_norm_backward}
