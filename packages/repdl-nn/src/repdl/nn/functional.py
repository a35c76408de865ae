"""The functions behind the layers, under the names of `torch.nn.functional`.

They are those of `repdl.ops`: torch's signatures, and a keyword `contract` where bits depend on it.
"""

from __future__ import annotations

from repdl.ops import (
    batch_norm,
    conv2d,
    cross_entropy,
    linear,
    log_softmax,
    max_pool2d,
    nll_loss,
    pad,
    relu,
    softmax,
)

__all__ = [
    "batch_norm",
    "conv2d",
    "cross_entropy",
    "linear",
    "log_softmax",
    "max_pool2d",
    "nll_loss",
    "pad",
    "relu",
    "softmax",
]
