"""Reference of `contract/v1/elementwise.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import ONE, ZERO, Array, to_numpy, to_torch

HALF = np.float32(0.5)

UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "cos": exact.cos,
    "erf": exact.erf,
    "exp": exact.exp,
    "exp2": exact.exp2,
    "expm1": exact.expm1,
    "log": exact.log,
    "log10": exact.log10,
    "log1p": exact.log1p,
    "log2": exact.log2,
    "neg": np.negative,
    "reciprocal": lambda x: ONE / x,
    "relu": lambda x: np.where(x < 0, ZERO, x),
    "rsqrt": exact.rsqrt,
    "sigmoid": exact.sigmoid,
    "sign": lambda x: np.where(x > 0, ONE, np.where(x < 0, -ONE, ZERO)).astype(x.dtype),
    "sin": exact.sin,
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
    "tanh": exact.tanh,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": lambda a, b: np.where((a < b) | np.isnan(b), b, a),
    "minimum": lambda a, b: np.where((a > b) | np.isnan(b), b, a),
}


def maximum_backward(grad: Array, a: Array, b: Array) -> Array:
    return np.where(a < b, ZERO, np.where(a == b, grad * HALF, grad))


def _op(function: Callable[..., Any], operands: int) -> Callable[..., torch.Tensor]:
    def run(*args: Any) -> torch.Tensor:
        with np.errstate(all="ignore"):
            return to_torch(function(*(to_numpy(x) for x in args[:operands])))

    return run


OPS = {
    **{name: _op(function, 1) for name, function in UNARY.items()},
    **{name: _op(function, 2) for name, function in BINARY.items()},
    "relu_backward": _op(lambda grad, y: np.where(y <= 0, ZERO, grad), 2),
    "maximum_backward": _op(maximum_backward, 3),
}
