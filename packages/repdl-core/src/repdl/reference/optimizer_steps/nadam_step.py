"""Reference of `contract/v1/nadam_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_either_decay


def nadam_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction2: float,
    grad_lr: float,
    exp_avg_lr: float,
    maximize: bool,
    decoupled_weight_decay: bool,
) -> None:
    check_shared("nadam_step", grads, params, exp_avgs, exp_avg_sqs)
    with np.errstate(all="ignore"):
        for param, grad, exp_avg, exp_avg_sq in zip(params, grads, exp_avgs, exp_avg_sqs):
            p, g = to_numpy(param), to_numpy(grad)
            one = np.float64(1)
            p, g = with_either_decay(p, g, maximize, weight_decay, lr, decoupled_weight_decay)
            m, v = to_numpy(exp_avg), to_numpy(exp_avg_sq)
            m = fma(g, rounded(one - beta1, p), m * rounded(one - (one - beta1), p))
            v = v * rounded(beta2, p) + (g * g) * rounded(one - beta2, p)
            d = np.sqrt(v / rounded(bias_correction2, p)) + rounded(eps, p)
            p = p + (g / d) * rounded(-grad_lr, p)
            p = p + (m / d) * rounded(-exp_avg_lr, p)
            exp_avg.detach().copy_(to_torch(m))
            exp_avg_sq.detach().copy_(to_torch(v))
            param.detach().copy_(to_torch(p))


OPS = {"nadam_step": nadam_step}
