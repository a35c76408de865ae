"""Reference of `contract/v1/linear.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference.arithmetic import dot, to_numpy, to_torch


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, contract: str) -> torch.Tensor:
    x, w = to_numpy(input), to_numpy(weight)
    product = dot(x.T[:, :, None], w.T[:, None, :], contract)
    if bias is None:
        return to_torch(product)
    with np.errstate(all="ignore"):
        return to_torch(product + to_numpy(bias))


OPS = {"linear": linear}
