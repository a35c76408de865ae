"""Reference of `contract/v1/adagrad_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_decay


def adagrad_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    state_sums: Sequence[torch.Tensor],
    lr: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    check_shared("adagrad_step", grads, params, state_sums)
    with np.errstate(all="ignore"):
        for param, grad, state_sum in zip(params, grads, state_sums):
            p, g = to_numpy(param), to_numpy(grad)
            g = with_decay(p, g, maximize, weight_decay)
            s = to_numpy(state_sum) + g * g
            p = p + (g / (np.sqrt(s) + rounded(eps, p))) * rounded(-lr, p)
            state_sum.detach().copy_(to_torch(s))
            param.detach().copy_(to_torch(p))


OPS = {"adagrad_step": adagrad_step}
