"""Reference of `contract/v1/elementwise.md`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import ONE, ZERO, Array, fma, rounded, to_numpy, to_torch

HALF = np.float32(0.5)


def _is_above(whole: Any, a: Any, b: Any) -> bool:
    """Whether an integer is above the exact quotient of a and b."""
    if not np.isfinite(whole) or not np.isfinite(a):
        return False
    if np.isinf(b):
        return bool(a < 0 < b or b < 0 < a)
    return Fraction(float(whole)) > Fraction(float(a)) / Fraction(float(b))


def div_floor(a: Array, b: Array) -> Array:
    quotient = a / b
    whole = np.floor(quotient)
    lifted = np.vectorize(_is_above, [bool])(whole, a, b) & (quotient == whole)
    return np.where(np.isinf(a) & (b != 0), a - a, np.where(lifted, whole - ONE, whole))


EXACT = {name: f for name, f in vars(exact).items() if isinstance(f, exact.correctly_rounded)}
UNARY: dict[str, Callable[..., Any]] = {
    **{name: f for name, f in EXACT.items() if f.operands == 1},
    "abs": np.abs,
    "neg": np.negative,
    "reciprocal": lambda x: ONE / x,
    "relu": lambda x: np.where(x < 0, ZERO, x),
    "root": lambda x: np.sqrt(x) + ZERO,
    "sign": lambda x: np.where(x > 0, ONE, np.where(x < 0, -ONE, ZERO)).astype(x.dtype),
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
}
BINARY: dict[str, Callable[..., Any]] = {
    **{name: f for name, f in EXACT.items() if f.operands == 2},
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "div_floor": div_floor,
    "div_trunc": lambda a, b: np.trunc(a / b),
    "maximum": lambda a, b: np.where((a < b) | np.isnan(b), b, a),
    "minimum": lambda a, b: np.where((a > b) | np.isnan(b), b, a),
}


def maximum_backward(grad: Array, a: Array, b: Array) -> Array:
    return np.where(a < b, ZERO, np.where(a == b, grad * HALF, grad))


def _at_least(x: Array, low: Array) -> Array:
    return np.where((x < low) | np.isnan(low), low, x)


def _at_most(x: Array, high: Array) -> Array:
    return np.where((x > high) | np.isnan(high), high, x)


def _op(function: Callable[..., Any], operands: int, options: int = 0) -> Callable[..., torch.Tensor]:
    """The op of that many tensors, which broadcast, and numbers."""

    def run(*args: Any) -> torch.Tensor:
        tensors = np.broadcast_arrays(*(to_numpy(x) for x in args[:operands]))
        with np.errstate(all="ignore"):
            return to_torch(function(*tensors, *args[operands : operands + options]))

    return run


OPS = {
    **{name: _op(function, 1) for name, function in UNARY.items()},
    **{name: _op(function, 2) for name, function in BINARY.items()},
    "root_backward": _op(lambda grad, y: np.where(y == 0, ZERO, grad / (y + y)), 2),
    "sigmoid_backward": _op(lambda grad, y: grad * ((ONE - y) * y), 2),
    "tanh_backward": _op(lambda grad, y: grad * (ONE - y * y), 2),
    "relu_backward": _op(lambda grad, y: np.where(y <= 0, ZERO, grad), 2),
    "maximum_backward": _op(maximum_backward, 3),
    "add_alpha": _op(lambda x, y, alpha: fma(rounded(alpha, x), y, x), 2, 1),
    "addcdiv": _op(lambda x, a, b, value: x + rounded(value, x) * (a / b), 3, 1),
    "addcmul": _op(lambda x, a, b, value: x + rounded(value, x) * (a * b), 3, 1),
    "clamp": _op(lambda x, low, high: _at_most(_at_least(x, rounded(low, x)), rounded(high, x)), 1, 2),
    "clamp_backward": _op(
        lambda grad, x, low, high: np.where((x >= rounded(low, x)) & (x <= rounded(high, x)), grad, ZERO), 2, 2
    ),
    "lerp": _op(lambda x, y, w: fma(y, rounded(w, x), x * rounded(1.0 - w, x)), 2, 1),
    "lerp_tensor": _op(lambda x, y, w: fma(y, w, x * (ONE - w)), 3),
    "where": _op(lambda condition, x, y: np.where(condition, x, y), 3),
}
