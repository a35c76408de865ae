"""Reference of `contract/v1/sgd_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_decay


def sgd_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momentum_buffers: Sequence[torch.Tensor],
    lr: float,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> None:
    check_shared("sgd_step", grads, params, momentum_buffers)
    with np.errstate(all="ignore"):
        for index, (param, grad) in enumerate(zip(params, grads)):
            p, g = to_numpy(param), to_numpy(grad)
            g = with_decay(p, g, maximize, weight_decay)
            if momentum != 0:
                if first:
                    b = g
                else:
                    b = to_numpy(momentum_buffers[index]) * rounded(momentum, p)
                    b = fma(g, rounded(np.float64(1) - dampening, p), b)
                g = fma(b, rounded(momentum, p), g) if nesterov else b
                momentum_buffers[index].detach().copy_(to_torch(b))
            p = fma(g, rounded(-lr, p), p)
            param.detach().copy_(to_torch(p))


OPS = {"sgd_step": sgd_step}
