"""Reference of the functions of an element in `contract/v1/losses.md`; other losses are formulas."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import ONE, Array, rounded, to_numpy, to_torch

LEAST = np.float32(-100)


def _bounded(logarithm: Array) -> Array:
    return np.where(logarithm < LEAST, LEAST, logarithm)


def binary_cross_entropy_elements(input: torch.Tensor, target: torch.Tensor, contract: str) -> torch.Tensor:
    x, y = to_numpy(input), to_numpy(target)
    with np.errstate(all="ignore"):
        return to_torch((y - ONE) * _bounded(exact.log1p(-x)) - y * _bounded(exact.log(x)))


def nll_variance(var: torch.Tensor, least: float) -> torch.Tensor:
    v = to_numpy(var)
    return to_torch(np.where(v < rounded(least, v), rounded(least, v), v))


OPS = {"binary_cross_entropy_elements": binary_cross_entropy_elements, "nll_variance": nll_variance}
