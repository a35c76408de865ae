"""Reference of `contract/v1/nll_loss.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import arithmetic
from repdl.reference.arithmetic import ZERO, Array, scalar, to_numpy, to_torch

Indices = np.ndarray


def picked(x: Array, t: Indices, counted: Indices) -> Array:
    """`x[n, t[n, ...], ...]` of x (N, C, ...); class 0 where it does not count."""
    index = np.expand_dims(np.where(counted, t, 0), 1)
    return np.asarray(np.take_along_axis(x, index, 1)[:, 0]) if x.size else np.zeros(t.shape, x.dtype)


def weights_of(weight: torch.Tensor | None, t: Indices, counted: Indices) -> Array | None:
    if weight is None:
        return None
    w = to_numpy(weight)
    return np.asarray(np.where(counted, w[np.where(counted, t, 0)], ZERO)) if w.size else np.zeros(t.shape, w.dtype)


def losses(log_p: Array, w: Array | None, counted: Indices, reduction: str, contract: str) -> tuple[Array, Array]:
    """The loss of log-probabilities of the targets, and the total weight."""
    each = -log_p if w is None else -(w * log_p)
    each = np.where(counted, each, ZERO)
    total = np.asarray(scalar(int(counted.sum()), log_p)) if w is None else arithmetic.sum(w.reshape(-1), contract)
    if reduction == "none":
        return each, total
    loss = arithmetic.sum(each.reshape(-1), contract)
    return (loss / total if reduction == "mean" else loss), total


def scales(grad: torch.Tensor, total: torch.Tensor, w: Array | None, t: Indices, reduction: str) -> Array:
    """The factor of each target's row in the gradient."""
    g = to_numpy(grad)
    if reduction == "mean":
        g = np.asarray(g / to_numpy(total))
    g = np.broadcast_to(g, t.shape)
    return np.asarray(g if w is None else w * g)


def nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    x, t = to_numpy(input), target.numpy()
    counted = t != ignore_index
    with np.errstate(all="ignore"):
        loss, total = losses(picked(x, t, counted), weights_of(weight, t, counted), counted, reduction, contract)
    return to_torch(loss), to_torch(total)


def nll_loss_backward(
    grad: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    classes: int,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> torch.Tensor:
    t = target.numpy()
    counted = t != ignore_index
    out = np.zeros((t.shape[0], classes, *t.shape[1:]), to_numpy(grad).dtype)
    with np.errstate(all="ignore"):
        scale = -scales(grad, total_weight, weights_of(weight, t, counted), t, reduction)
    for c in range(classes):
        out[:, c] = np.where(counted & (t == c), scale, ZERO)
    return to_torch(out)


OPS = {"nll_loss": nll_loss, "nll_loss_backward": nll_loss_backward}
