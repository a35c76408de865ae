"""Reference of `contract/v1/rms_norm.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.ops.normalization._norm import statistics_shape
from repdl.reference import arithmetic
from repdl.reference.arithmetic import ONE, fma, rounded, scalar, to_numpy, to_torch
from repdl.reference.normalization.layer_norm import by_row, scaled, vector


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    x = by_row(input, int(np.prod(normalized_shape)))
    shape = statistics_shape(input, normalized_shape)
    if input.numel() == 0:  # the rows of an empty input cannot be told from its elements
        return to_torch(to_numpy(input)), to_torch(to_numpy(torch.full(shape, float("nan"), dtype=input.dtype)))
    with np.errstate(all="ignore"):
        q = arithmetic.sum(x * x, contract) / scalar(x.shape[0], x)
        rstd = ONE / np.sqrt(q + rounded(eps, x))
        out = scaled(x * rstd, vector(weight, x), None)
    return to_torch(out.T.reshape(input.shape)), to_torch(rstd.reshape(shape))


def rms_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    elements = int(np.prod(normalized_shape))
    g, x = by_row(grad, elements), by_row(input, elements)
    if input.numel() == 0:
        return to_torch(to_numpy(input)), torch.zeros(tuple(normalized_shape), dtype=input.dtype)
    r = to_numpy(rstd).reshape(-1)
    with np.errstate(all="ignore"):
        h = x * r
        scale = vector(weight, g)
        w = g if scale is None else g * scale
        t = arithmetic.sum(w * h, contract) / scalar(x.shape[0], x)
        out = r * fma(-h, np.broadcast_to(t, h.shape), w)
        grad_weight = arithmetic.sum(np.ascontiguousarray((g * h).T), contract)
    return to_torch(out.T.reshape(input.shape)), to_torch(grad_weight.reshape(normalized_shape))


OPS = {"rms_norm": rms_norm, "rms_norm_backward": rms_norm_backward}
