"""Reference of `contract/v1/asgd_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_decay


def asgd_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    axs: Sequence[torch.Tensor],
    eta: float,
    lambd: float,
    mu: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    check_shared("asgd_step", grads, params, axs)
    with np.errstate(all="ignore"):
        for param, grad, ax in zip(params, grads, axs):
            p, g = to_numpy(param), to_numpy(grad)
            g = with_decay(p, g, maximize, weight_decay)
            p = fma(g, rounded(-eta, p), p * rounded(1 - np.float64(lambd) * eta, p))
            a = to_numpy(ax)
            a = p if mu == 1 else a + (p - a) * rounded(mu, p)
            ax.detach().copy_(to_torch(a))
            param.detach().copy_(to_torch(p))


OPS = {"asgd_step": asgd_step}
