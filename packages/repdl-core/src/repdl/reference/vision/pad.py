"""Reference of `contract/v1/pad.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.ops.vision.pad import sources
from repdl.reference.arithmetic import to_numpy, to_torch


def pad(input: torch.Tensor, dim: int, left: int, right: int, mode: str) -> torch.Tensor:
    x = to_numpy(input)
    return to_torch(np.take(x, sources(x.shape[dim], left, right, mode), dim))


def pad_backward(grad: torch.Tensor, dim: int, left: int, right: int, mode: str) -> torch.Tensor:
    g = np.moveaxis(to_numpy(grad), dim, 0)
    n = g.shape[0] - left - right
    out = np.zeros((n, *g.shape[1:]), g.dtype)
    with np.errstate(all="ignore"):
        for o, source in enumerate(sources(n, left, right, mode)):
            out[source] += g[o]
    return to_torch(np.moveaxis(out, 0, dim))


OPS = {"pad": pad, "pad_backward": pad_backward}
