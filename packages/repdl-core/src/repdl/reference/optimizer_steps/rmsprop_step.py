"""Reference of `contract/v1/rmsprop_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_decay


def rmsprop_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    square_avgs: Sequence[torch.Tensor],
    grad_avgs: Sequence[torch.Tensor],
    momentum_buffers: Sequence[torch.Tensor],
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
    maximize: bool,
) -> None:
    check_shared("rmsprop_step", grads, params, square_avgs, grad_avgs, momentum_buffers)
    with np.errstate(all="ignore"):
        for index, (param, grad) in enumerate(zip(params, grads)):
            p, g, v = to_numpy(param), to_numpy(grad), to_numpy(square_avgs[index])
            keep, share = rounded(alpha, p), rounded(np.float64(1) - alpha, p)
            g = with_decay(p, g, maximize, weight_decay)
            v = v * keep + (g * g) * share
            square_avgs[index].detach().copy_(to_torch(v))
            if centered:
                a = fma(g, share, to_numpy(grad_avgs[index]) * keep)
                grad_avgs[index].detach().copy_(to_torch(a))
                v = v - a * a
            q = g / (np.sqrt(v) + rounded(eps, p))
            if momentum != 0:
                b = to_numpy(momentum_buffers[index]) * rounded(momentum, p) + q
                momentum_buffers[index].detach().copy_(to_torch(b))
                p = fma(b, rounded(-lr, p), p)
            else:
                p = p + q * rounded(-lr, p)
            param.detach().copy_(to_torch(p))


OPS = {"rmsprop_step": rmsprop_step}
