"""Reference of `contract/v1/adam_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_either_decay


def adam_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    max_exp_avg_sqs: Sequence[torch.Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction1: float,
    bias_correction2: float,
    amsgrad: bool,
    maximize: bool,
    decoupled_weight_decay: bool,
) -> None:
    check_shared("adam_step", grads, params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
    with np.errstate(all="ignore"):
        one = np.float64(1)
        step_size = np.float64(lr) / np.float64(bias_correction1)
        root = np.sqrt(np.float64(bias_correction2))
        for index, (param, grad) in enumerate(zip(params, grads)):
            p, g = to_numpy(param), to_numpy(grad)
            m, v = to_numpy(exp_avgs[index]), to_numpy(exp_avg_sqs[index])
            p, g = with_either_decay(p, g, maximize, weight_decay, lr, decoupled_weight_decay)
            m = fma(g, rounded(one - beta1, p), m * rounded(beta1, p))
            v = v * rounded(beta2, p) + (g * g) * rounded(one - beta2, p)
            exp_avgs[index].detach().copy_(to_torch(m))
            exp_avg_sqs[index].detach().copy_(to_torch(v))
            if amsgrad:
                x = to_numpy(max_exp_avg_sqs[index])
                v = np.where((x > v) | np.isnan(x), x, v)
                max_exp_avg_sqs[index].detach().copy_(to_torch(v))
            denominator = np.sqrt(v) / rounded(root, p) + rounded(eps, p)
            p = p + (m / denominator) * rounded(-step_size, p)
            param.detach().copy_(to_torch(p))


OPS = {"adam_step": adam_step}
