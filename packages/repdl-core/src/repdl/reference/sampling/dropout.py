"""Reference of `contract/v1/dropout.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference.arithmetic import ZERO, rounded, to_numpy, to_torch
from repdl.reference.sampling.distributions import happens


def dropout(input: torch.Tensor, position: torch.Tensor, p: float) -> torch.Tensor:
    x = to_numpy(input)
    scale = rounded(0.0 if p == 1.0 else 1.0 / (1.0 - p), x)
    dropped = happens(position, np.full(x.shape, p))
    with np.errstate(all="ignore"):
        return to_torch(x * np.where(dropped, ZERO, scale))


OPS = {"dropout": dropout}
