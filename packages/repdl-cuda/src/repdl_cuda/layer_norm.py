"""Glue of layer_norm: a row for each element of the dimensions before normalized_shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from repdl.ops._norm import statistics_shape
from repdl_cuda.norm_rows import Optional, gradients, normalise


def layer_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, bias: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    mean, rstd = (input.new_empty(statistics_shape(input, normalized_shape)) for _ in "mr")
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    return normalise("layer_norm", input, weight, bias, mean, rstd, sizes, eps, contract), mean, rstd


def layer_norm_backward(
    grad: torch.Tensor, input: torch.Tensor, normalized_shape: Sequence[int], mean: torch.Tensor, rstd: torch.Tensor,
    weight: Optional, contract: str,
) -> tuple[torch.Tensor, ...]:
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    return gradients("layer_norm_backward", grad, input, mean, rstd, weight, normalized_shape, sizes, contract)


OPS = {"layer_norm": layer_norm, "layer_norm_backward": layer_norm_backward}
