"""Reference of `contract/v1/radam_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_either_decay


def radam_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction1: float,
    bias_correction2: float,
    rect: float,
    maximize: bool,
    decoupled_weight_decay: bool,
) -> None:
    check_shared("radam_step", grads, params, exp_avgs, exp_avg_sqs)
    with np.errstate(all="ignore"):
        for param, grad, exp_avg, exp_avg_sq in zip(params, grads, exp_avgs, exp_avg_sqs):
            p, g = to_numpy(param), to_numpy(grad)
            one = np.float64(1)
            p, g = with_either_decay(p, g, maximize, weight_decay, lr, decoupled_weight_decay)
            m, v = to_numpy(exp_avg), to_numpy(exp_avg_sq)
            m = fma(g, rounded(one - beta1, p), m * rounded(one - (one - beta1), p))
            v = v * rounded(beta2, p) + (g * g) * rounded(one - beta2, p)
            r = (m / rounded(bias_correction1, p)) * rounded(lr, p)
            if rect != 0:
                root = rounded(np.sqrt(np.float64(bias_correction2)), p)
                r = (r * ((rounded(1.0, p) / (np.sqrt(v) + rounded(eps, p))) * root)) * rounded(rect, p)
            p = p - r
            exp_avg.detach().copy_(to_torch(m))
            exp_avg_sq.detach().copy_(to_torch(v))
            param.detach().copy_(to_torch(p))


OPS = {"radam_step": radam_step}
