"""Reference of `contract/v1/rprop_step.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import rounded, to_numpy, to_torch
from repdl.reference.step import check_shared


def rprop_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    prevs: Sequence[torch.Tensor],
    step_sizes: Sequence[torch.Tensor],
    etaminus: float,
    etaplus: float,
    step_size_min: float,
    step_size_max: float,
    maximize: bool,
) -> None:
    check_shared("rprop_step", grads, params, prevs, step_sizes)
    with np.errstate(all="ignore"):
        for param, grad, prev, step_size in zip(params, grads, prevs, step_sizes):
            p, g = to_numpy(param), to_numpy(grad)
            one, zero = rounded(1.0, p), rounded(0.0, p)
            if maximize:
                g = -g
            q, s = to_numpy(prev), to_numpy(step_size)
            least, most, minus = rounded(step_size_min, p), rounded(step_size_max, p), rounded(etaminus, p)
            f = np.where(g * q > 0, rounded(etaplus, p), np.where(g * q < 0, minus, one))
            f = np.where(f == 0, one, f)
            s = s * f
            s = np.where((s < least) | np.isnan(least), least, s)
            s = np.where((s > most) | np.isnan(most), most, s)
            g = np.where(f == minus, zero, g)
            p = p - np.where(g > 0, one, np.where(g < 0, -one, zero)) * s
            prev.detach().copy_(to_torch(g))
            step_size.detach().copy_(to_torch(s))
            param.detach().copy_(to_torch(p))


OPS = {"rprop_step": rprop_step}
