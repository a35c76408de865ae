"""Reference of `contract/v1/batch_norm.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import arithmetic
from repdl.reference.arithmetic import ONE, Array, fma, rounded, scalar, to_numpy, to_torch


def _rows(tensor: torch.Tensor) -> Array:
    """(N, C, ...) as (n, C), n row-major over the other dimensions."""
    x = np.moveaxis(to_numpy(tensor), 1, -1)
    rows = x.size // tensor.shape[1] if tensor.shape[1] else 0
    return np.ascontiguousarray(x.reshape(rows, tensor.shape[1]))


def _like(rows: Array, tensor: torch.Tensor) -> torch.Tensor:
    shape = (tensor.shape[0], *tensor.shape[2:], tensor.shape[1])
    return to_torch(np.moveaxis(rows.reshape(shape), -1, 1))


def batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    x = _rows(input)
    n = scalar(x.shape[0], x)
    new_mean = new_var = np.zeros(0, x.dtype)
    with np.errstate(all="ignore"):
        if training:
            mean = arithmetic.sum(x, contract) / n
            d = x - mean
            q = arithmetic.sum(d * d, contract)
            var = q / n
            if running_mean is not None and running_var is not None:
                share, keep = rounded(momentum, x), rounded(np.float64(1) - momentum, x)
                unbiased = q / scalar(x.shape[0] - 1, x)
                new_mean = fma(share, mean, keep * to_numpy(running_mean))
                new_var = fma(share, unbiased, keep * to_numpy(running_var))
        else:
            assert running_mean is not None and running_var is not None
            mean, var = to_numpy(running_mean), to_numpy(running_var)
        invstd = ONE / np.sqrt(var + rounded(eps, x))
        out = (x - mean) * invstd
        if weight is not None and bias is not None:
            out = fma(out, np.broadcast_to(to_numpy(weight), out.shape), np.broadcast_to(to_numpy(bias), out.shape))
        elif weight is not None:
            out = out * to_numpy(weight)
        elif bias is not None:
            out = out + to_numpy(bias)
    return _like(out, input), to_torch(mean), to_torch(invstd), to_torch(new_mean), to_torch(new_var)


def batch_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    training: bool,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    g, x, i = _rows(grad), _rows(input), to_numpy(invstd)
    n = scalar(x.shape[0], x)
    with np.errstate(all="ignore"):
        h = (x - to_numpy(mean)) * i
        k = i if weight is None else to_numpy(weight) * i
        b, w = arithmetic.sum(g, contract), arithmetic.sum(g * h, contract)
        out = k * fma(-h, np.broadcast_to(w / n, h.shape), g - b / n) if training else g * k
    return _like(out, input), to_torch(w), to_torch(b)


OPS = {"batch_norm": batch_norm, "batch_norm_backward": batch_norm_backward}
