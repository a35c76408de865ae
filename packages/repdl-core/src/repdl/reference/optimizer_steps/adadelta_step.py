"""Reference of `contract/v1/adadelta_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import fma, rounded, to_numpy, to_torch
from repdl.reference.step import check_shared, with_decay


def adadelta_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    square_avgs: Sequence[torch.Tensor],
    acc_deltas: Sequence[torch.Tensor],
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    check_shared("adadelta_step", grads, params, square_avgs, acc_deltas)
    with np.errstate(all="ignore"):
        for param, grad, square_avg, acc_delta in zip(params, grads, square_avgs, acc_deltas):
            p, g = to_numpy(param), to_numpy(grad)
            keep, share = rounded(rho, p), rounded(np.float64(1) - rho, p)
            g = with_decay(p, g, maximize, weight_decay)
            v, u = to_numpy(square_avg), to_numpy(acc_delta)
            v = v * keep + (g * g) * share
            d = (np.sqrt(u + rounded(eps, p)) / np.sqrt(v + rounded(eps, p))) * g
            u = u * keep + (d * d) * share
            p = fma(d, rounded(-lr, p), p)
            square_avg.detach().copy_(to_torch(v))
            acc_delta.detach().copy_(to_torch(u))
            param.detach().copy_(to_torch(p))


OPS = {"adadelta_step": adadelta_step}
