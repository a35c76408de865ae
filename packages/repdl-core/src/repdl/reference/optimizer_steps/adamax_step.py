"""Reference of `contract/v1/adamax_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_decay


def adamax_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_infs: Sequence[torch.Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    check_shared("adamax_step", grads, params, exp_avgs, exp_infs)
    with np.errstate(all="ignore"):
        for param, grad, exp_avg, exp_inf in zip(params, grads, exp_avgs, exp_infs):
            p, g = to_numpy(param), to_numpy(grad)
            one = np.float64(1)
            g = with_decay(p, g, maximize, weight_decay)
            m, u = to_numpy(exp_avg), to_numpy(exp_inf)
            m = fma(g, rounded(one - beta1, p), m * rounded(one - (one - beta1), p))
            before, now = u * rounded(beta2, p), np.abs(g) + rounded(eps, p)
            u = np.where((before < now) | np.isnan(now), now, before)
            p = p + (m / u) * rounded(-lr, p)
            exp_avg.detach().copy_(to_torch(m))
            exp_inf.detach().copy_(to_torch(u))
            param.detach().copy_(to_torch(p))


OPS = {"adamax_step": adamax_step}
