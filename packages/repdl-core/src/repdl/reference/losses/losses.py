"""Reference of the functions of an element in `contract/v1/losses.md`; other losses are formulas."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import ONE, ZERO, Array, rounded, to_numpy, to_torch

LEAST = np.float32(-100)


def _bounded(logarithm: Array) -> Array:
    return np.where(logarithm < LEAST, LEAST, logarithm)


def binary_cross_entropy_elements(input: torch.Tensor, target: torch.Tensor, contract: str) -> torch.Tensor:
    x, y = to_numpy(input), to_numpy(target)
    with np.errstate(all="ignore"):
        return to_torch((y - ONE) * _bounded(exact.log1p(-x)) - y * _bounded(exact.log(x)))


def binary_cross_entropy_with_logits_elements(input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    x, y = to_numpy(input), to_numpy(target)
    with np.errstate(all="ignore"):
        log_sigmoid = np.where(x < 0, x, ZERO) - exact.log1p(exact.exp(-np.abs(x)))
        return to_torch((ONE - y) * x - log_sigmoid)


def binary_cross_entropy_with_logits_elements_backward(
    grad: torch.Tensor, input: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    g, x, y = to_numpy(grad), to_numpy(input), to_numpy(target)
    with np.errstate(all="ignore"):
        return to_torch(g * (ONE - y) - g * exact.sigmoid(-x))


def nll_variance(var: torch.Tensor, least: float) -> torch.Tensor:
    v = to_numpy(var)
    return to_torch(np.where(v < rounded(least, v), rounded(least, v), v))


def huber(input: torch.Tensor, delta: float) -> torch.Tensor:
    x, d, half = to_numpy(input), rounded(delta, to_numpy(input)), rounded(0.5, to_numpy(input))
    with np.errstate(all="ignore"):
        return to_torch(np.where(np.abs(x) < d, (half * x) * x, d * (np.abs(x) - half * d)))


def huber_backward(grad: torch.Tensor, input: torch.Tensor, delta: float) -> torch.Tensor:
    g, x, d = to_numpy(grad), to_numpy(input), rounded(delta, to_numpy(input))
    with np.errstate(all="ignore"):
        return to_torch(np.where(np.abs(x) < d, g * x, (g * d) * np.sign(x)))


def smooth_l1(input: torch.Tensor, beta: float) -> torch.Tensor:
    x, b, half = to_numpy(input), rounded(beta, to_numpy(input)), rounded(0.5, to_numpy(input))
    with np.errstate(all="ignore"):
        return to_torch(np.where(np.abs(x) < b, ((half * x) * x) / b, np.abs(x) - half * b))


def smooth_l1_backward(grad: torch.Tensor, input: torch.Tensor, beta: float) -> torch.Tensor:
    g, x, b = to_numpy(grad), to_numpy(input), rounded(beta, to_numpy(input))
    with np.errstate(all="ignore"):
        return to_torch(np.where(np.abs(x) < b, (g / b) * x, g * np.sign(x)))


OPS = {
    "binary_cross_entropy_elements": binary_cross_entropy_elements,
    "binary_cross_entropy_with_logits_elements": binary_cross_entropy_with_logits_elements,
    "binary_cross_entropy_with_logits_elements_backward": binary_cross_entropy_with_logits_elements_backward,
    "huber": huber,
    "huber_backward": huber_backward,
    "nll_variance": nll_variance,
    "smooth_l1": smooth_l1,
    "smooth_l1_backward": smooth_l1_backward,
}
