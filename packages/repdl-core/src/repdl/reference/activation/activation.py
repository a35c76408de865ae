"""Reference of `contract/v1/activation.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import ONE, ZERO, Array, rounded, scalar, to_numpy, to_torch

HALF = np.float32(0.5)
ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
ROOT_2_PI = float.fromhex("0x1.9884533d43651p-1")
PDF_0 = float.fromhex("0x1.9884533d43651p-2")
"""The doubles next to sqrt(1/2), sqrt(2 / pi) and 1 / sqrt(2 pi)."""
CUBIC, CUBIC_3 = 0.044715, 0.134145


def _tanh(x: Array) -> Array:
    return exact.tanh((x + ((x * x) * x) * rounded(CUBIC, x)) * rounded(ROOT_2_PI, x))


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
        t = exact.erf(x * rounded(ROOT_HALF, x)) if approximate == "none" else _tanh(x)
        return to_torch((x * HALF) * (ONE + t))


def gelu_backward(grad: torch.Tensor, input: torch.Tensor, approximate: str) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        if approximate == "none":
            density = exact.exp((x * x) * -HALF) * rounded(PDF_0, x)
            return to_torch(g * (HALF * (ONE + exact.erf(x * rounded(ROOT_HALF, x))) + x * density))
        t = _tanh(x)
        slope = (ONE + (x * x) * rounded(CUBIC_3, x)) * rounded(ROOT_2_PI, x)
        return to_torch(g * (HALF * (ONE + t) + ((x * HALF) * (ONE - t * t)) * slope))


def _six_steps(x: Array) -> Array:
    """x + 3 between 0 and 6."""
    above = x + scalar(3, x)
    return np.where(above < 0, ZERO, np.where(above > 6, scalar(6, x), above))


def hardsigmoid(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(_six_steps(x) / scalar(6, x))


def hardswish(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(x * _six_steps(x) / scalar(6, x))


def hardswish_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        between = g * (x / scalar(3, x) + HALF)
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


SELU, SELU_ALPHA = 1.0507009873554805, 1.7580993408473766


def celu(input: torch.Tensor, alpha: float) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        a = rounded(alpha, x)
        return to_torch(np.where(x > 0, x, exact.expm1(x / a) * a))


def celu_backward(grad: torch.Tensor, input: torch.Tensor, alpha: float) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > 0, g, g * exact.exp(x / rounded(alpha, x))))


def selu(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > 0, x * rounded(SELU, x), exact.expm1(x) * rounded(SELU_ALPHA, x)))


def selu_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(g * np.where(x > 0, rounded(SELU, x), exact.exp(x) * rounded(SELU_ALPHA, x)))


def logsigmoid(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x < 0, x, ZERO) - exact.log1p(exact.exp(-np.abs(x))))


def _mish_gate(x: Array) -> Array:
    return exact.tanh(exact.log1p(exact.exp(x)))


def mish(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(x * _mish_gate(x))


def mish_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    with np.errstate(all="ignore"):
        t = _mish_gate(x)
        return to_torch(g * (t + (x * exact.sigmoid(x)) * (ONE - t * t)))


def softsign(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(x / (scalar(1, x) + np.abs(x)))


def tanhshrink(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(x - exact.tanh(x))


def hardtanh(input: torch.Tensor, min_val: float, max_val: float) -> torch.Tensor:
    x = to_numpy(input)
    low, high = rounded(min_val, x), rounded(max_val, x)
    return to_torch(np.where(x < low, low, np.where(x > high, high, x)))


def hardtanh_backward(grad: torch.Tensor, input: torch.Tensor, min_val: float, max_val: float) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    return to_torch(np.where((x <= rounded(min_val, x)) | (x >= rounded(max_val, x)), ZERO, g))


def threshold(input: torch.Tensor, threshold: float, value: float) -> torch.Tensor:
    x = to_numpy(input)
    return to_torch(np.where(x <= rounded(threshold, x), rounded(value, x), x))


def threshold_backward(grad: torch.Tensor, input: torch.Tensor, threshold: float) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    return to_torch(np.where(x <= rounded(threshold, x), ZERO, g))


def _shrinks(x: Array, lambd: float) -> Array:
    bound = rounded(lambd, x)
    return (x >= -bound) & (x <= bound)


def hardshrink(input: torch.Tensor, lambd: float) -> torch.Tensor:
    x = to_numpy(input)
    return to_torch(np.where(_shrinks(x, lambd), ZERO, x))


def hardshrink_backward(grad: torch.Tensor, input: torch.Tensor, lambd: float) -> torch.Tensor:
    g, x = to_numpy(grad), to_numpy(input)
    return to_torch(np.where(_shrinks(x, lambd), ZERO, g))


def softshrink(input: torch.Tensor, lambd: float) -> torch.Tensor:
    x = to_numpy(input)
    bound = rounded(lambd, x)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > bound, x - bound, np.where(x < -bound, x + bound, x * ZERO)))


def prelu(input: torch.Tensor, weight: torch.Tensor, contract: str) -> torch.Tensor:
    x, w = to_numpy(input), to_numpy(weight)
    with np.errstate(all="ignore"):
        return to_torch(np.where(x > 0, x, w * x))


OPS = {
    "celu": celu,
    "celu_backward": celu_backward,
    "selu": selu,
    "selu_backward": selu_backward,
    "logsigmoid": logsigmoid,
    "mish": mish,
    "mish_backward": mish_backward,
    "softsign": softsign,
    "tanhshrink": tanhshrink,
    "hardtanh": hardtanh,
    "hardtanh_backward": hardtanh_backward,
    "threshold": threshold,
    "threshold_backward": threshold_backward,
    "hardshrink": hardshrink,
    "hardshrink_backward": hardshrink_backward,
    "softshrink": softshrink,
    "prelu": prelu,
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
