"""What the references of all optimizer steps share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference.arithmetic import Array, fma, rounded
from repdl.tensors.overlap import check_memory


def check_shared(op: str, read: Sequence[torch.Tensor], *written: Sequence[torch.Tensor]) -> None:
    """Raise if a contiguous tensor that is written shares memory with another tensor."""
    spans = [(t.data_ptr(), t.nbytes, False) for t in read if t.is_contiguous()]
    spans += [(t.data_ptr(), t.nbytes, True) for ts in written for t in ts if t.is_contiguous()]
    check_memory(op, spans)


def with_decay(p: Array, g: Array, maximize: bool, weight_decay: float) -> Array:
    """The gradient of a step: negated to maximize, and with weight decay added to it."""
    g = -g if maximize else g
    return fma(rounded(weight_decay, p), p, g) if weight_decay != 0 else g


def with_either_decay(
    p: Array, g: Array, maximize: bool, weight_decay: float, lr: float, decoupled: bool
) -> tuple[Array, Array]:
    """Parameter and gradient of a step, whose weight decay may be decoupled: then the parameter shrinks."""
    if weight_decay == 0 or not decoupled:
        return p, with_decay(p, g, maximize, weight_decay)
    return p * rounded(1 - np.float64(lr) * weight_decay, p), with_decay(p, g, maximize, 0.0)
