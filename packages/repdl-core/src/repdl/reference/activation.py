"""Reference of `contract/v1/activation.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import ONE, ZERO, Array, number, rounded, to_numpy, to_torch

HALF = np.float32(0.5)
ROOT_HALF = np.float32(np.sqrt(0.5))
ROOT_2_PI = np.float32(np.sqrt(2 / np.pi))
PDF_0 = np.float32(1 / np.sqrt(2 * np.pi))
CUBIC, CUBIC_3 = np.float32(0.044715), np.float32(0.134145)


def _tanh(x: Array) -> Array:
    return exact.tanh((x + ((x * x) * x) * CUBIC) * ROOT_2_PI)


def silu(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(x * exact.sigmoid(x))


def silu_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    s = exact.sigmoid(x)
    with np.errstate(all="ignore"):
        return to_torch(g * (s * (ONE + x * (ONE - s))))


def elu(input: torch.Tensor, alpha: float) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > 0, x, exact.expm1(x) * rounded(alpha, x)))


def elu_backward(grad: torch.Tensor, input: torch.Tensor, alpha: float) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > 0, g, g * (exact.exp(x) * rounded(alpha, x))))


def gelu(input: torch.Tensor, approximate: str) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        t = exact.erf(x * ROOT_HALF) if approximate == "none" else _tanh(x)
        return to_torch((x * HALF) * (ONE + t))


def gelu_backward(grad: torch.Tensor, input: torch.Tensor, approximate: str) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        if approximate == "none":
            density = exact.exp((x * x) * -HALF) * PDF_0
            return to_torch(g * (HALF * (ONE + exact.erf(x * ROOT_HALF)) + x * density))
        t = _tanh(x)
        slope = (ONE + (x * x) * CUBIC_3) * ROOT_2_PI
        return to_torch(g * (HALF * (ONE + t) + ((x * HALF) * (ONE - t * t)) * slope))


def _six_steps(x: Array) -> Array:
    """x + 3 between 0 and 6."""
    above = x + number(3, x)
    return np.where(above < 0, ZERO, np.where(above > 6, number(6, x), above))


def hardsigmoid(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(_six_steps(x) / number(6, x))


def hardswish(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(x * _six_steps(x) / number(6, x))


def hardswish_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        between = g * (x / number(3, x) + HALF)
        return to_torch(np.where(x <= -3, ZERO, np.where(x < 3, between, g)))


def leaky_relu(input: torch.Tensor, negative_slope: float) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > 0, x, x * rounded(negative_slope, x)))


def leaky_relu_backward(grad: torch.Tensor, input: torch.Tensor, negative_slope: float) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > 0, g, g * rounded(negative_slope, x)))


def softplus(input: torch.Tensor, beta: float, threshold: float) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        z = x * rounded(beta, x)
        curve = exact.log1p(exact.exp(z)) / rounded(beta, x)
        return to_torch(np.where(z > rounded(threshold, x), x, curve))


def softplus_backward(grad: torch.Tensor, input: torch.Tensor, beta: float, threshold: float) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        z = x * rounded(beta, x)
        return to_torch(np.where(z > rounded(threshold, x), g, g * exact.sigmoid(z)))


OPS = {
    "elu": elu,
    "elu_backward": elu_backward,
    "hardsigmoid": hardsigmoid,
    "hardswish": hardswish,
    "hardswish_backward": hardswish_backward,
    "leaky_relu": leaky_relu,
    "leaky_relu_backward": leaky_relu_backward,
    "softplus": softplus,
    "softplus_backward": softplus_backward,
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "silu": silu,
    "silu_backward": silu_backward,
}
