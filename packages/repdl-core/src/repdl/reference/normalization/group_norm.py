"""Reference of `contract/v1/group_norm.md`; a row is one group of one batch element."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import arithmetic
from repdl.reference.arithmetic import Array, to_numpy, to_torch
from repdl.reference.normalization.layer_norm import gradient, normalise, scaled


def _rows(tensor: torch.Tensor, num_groups: int) -> Array:
    """(N, C, ...) as (n, N * num_groups)."""
    n = tensor.shape[1] // num_groups * tensor.shape[2:].numel()
    return np.ascontiguousarray(to_numpy(tensor).reshape(tensor.shape[0] * num_groups, n).T)


def _vector(tensor: torch.Tensor | None, input: torch.Tensor, num_groups: int) -> Array | None:
    """(C) as (n, N * num_groups): each channel's value for each of its elements."""
    if tensor is None:
        return None
    channels = tensor.detach().reshape(-1, *(1 for _ in input.shape[2:]))
    return _rows(channels.expand(input.shape), num_groups)


def _by_channel(rows: Array, input: torch.Tensor) -> Array:
    """(n, N * num_groups) as (N * ..., C)."""
    x = np.moveaxis(rows.T.reshape(input.shape), 1, -1)
    return np.ascontiguousarray(x.reshape(input.shape[0] * input.shape[2:].numel(), input.shape[1]))


def group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    with np.errstate(all="ignore"):
        h, mean, rstd = normalise(_rows(input, num_groups), eps, contract)
        out = scaled(h, _vector(weight, input, num_groups), _vector(bias, input, num_groups))
    statistics = (to_torch(t.reshape(input.shape[0], num_groups)) for t in (mean, rstd))
    return to_torch(out.T.reshape(input.shape)), *statistics


def group_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    num_groups: int,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    g, x = _rows(grad, num_groups), _rows(input, num_groups)
    m, r = to_numpy(mean).reshape(-1), to_numpy(rstd).reshape(-1)
    w = _vector(weight, input, num_groups)
    with np.errstate(all="ignore"):
        h = (x - m) * r
        out = gradient(g if w is None else g * w, h, r, contract)
        sums = [arithmetic.sum(_by_channel(t, input), contract) for t in (g * h, g)]
    return to_torch(out.T.reshape(input.shape)), to_torch(sums[0]), to_torch(sums[1])


OPS = {"group_norm": group_norm, "group_norm_backward": group_norm_backward}
