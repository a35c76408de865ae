"""Reference of `contract/v1/cross_entropy.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import arithmetic, exact
from repdl.reference.activation.softmax import shifted_exp
from repdl.reference.arithmetic import ONE, ZERO, to_numpy, to_torch
from repdl.reference.losses.nll_loss import losses, picked, scales, weights_of


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    x, t = to_numpy(input), target.numpy()
    counted = t != ignore_index
    with np.errstate(all="ignore"):
        shifted, e, m = shifted_exp(np.moveaxis(x, 1, 0), contract)
        s = arithmetic.sum(e, contract)
        log_p = picked(np.moveaxis(shifted, 0, 1), t, counted) - exact.log(s)
        loss, total = losses(log_p, weights_of(weight, t, counted), counted, reduction, contract)
    return to_torch(loss), to_torch(total), to_torch(m), to_torch(s)


def cross_entropy_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    max: torch.Tensor,
    sum: torch.Tensor,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> torch.Tensor:
    x, t = to_numpy(input), target.numpy()
    counted = t != ignore_index
    out = np.zeros_like(x)
    with np.errstate(all="ignore"):
        g = scales(grad, total_weight, weights_of(weight, t, counted), t, reduction)
        for c in range(x.shape[1]):
            p = exact.exp(x[:, c] - to_numpy(max)) / to_numpy(sum)
            d = np.where(t == c, p - ONE, p)
            out[:, c] = np.where(counted, d * g, ZERO)
    return to_torch(out)


OPS = {"cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward}
