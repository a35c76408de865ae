"""Glue of rms_norm: rows as in layer_norm, without their mean."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from repdl import layout
from repdl_cuda.norm_rows import Optional, gradients, normalise


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    output, rstd = layout.outputs("rms_norm")(input, normalized_shape, weight, eps, contract)
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    return normalise("rms_norm", output, None, rstd, input, weight, None, sizes, eps, contract), rstd


def rms_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    sizes = [rstd.numel(), 1, prod(normalized_shape), 1]
    output, grad_weight = layout.outputs("rms_norm_backward")(grad, input, normalized_shape)
    result = gradients("rms_norm_backward", output, grad_weight, None, grad, input, None, rstd, weight, sizes, contract)
    return result, grad_weight


OPS = {"rms_norm": rms_norm, "rms_norm_backward": rms_norm_backward}
