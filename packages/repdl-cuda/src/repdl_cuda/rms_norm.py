"""Glue of rms_norm: rows as in layer_norm, without their mean."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from repdl.ops._norm import statistics_shape
from repdl_cuda.norm_rows import Optional, gradients, normalise


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    rstd = input.new_empty(statistics_shape(input, normalized_shape))
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    return normalise("rms_norm", input, weight, None, None, rstd, sizes, eps, contract), rstd


def rms_norm_backward(
    grad: torch.Tensor, input: torch.Tensor, normalized_shape: Sequence[int], rstd: torch.Tensor, weight: Optional,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    return gradients("rms_norm_backward", grad, input, None, rstd, weight, normalized_shape, sizes, contract)[:2]


OPS = {"rms_norm": rms_norm, "rms_norm_backward": rms_norm_backward}
