"""Reference of `contract/v1/softmax.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from repdl.reference import arithmetic, exact
from repdl.reference.arithmetic import ZERO, Array, to_numpy, to_torch


def shifted_exp(x: Array, contract: str) -> tuple[Array, Array, Array]:
    """`(x - m, exp(x - m), m)` for rows along the first axis, m the largest that is not NaN."""
    m = np.max(np.where(np.isnan(x), np.float32(-np.inf), x), 0, initial=np.float32(-np.inf)) + ZERO
    shifted = x - m
    return shifted, exact.exp(shifted), m


def _softmax(x: Array, contract: str) -> Array:
    _, e, _ = shifted_exp(x, contract)
    return np.asarray(e / arithmetic.sum(e, contract))


def _log_softmax(x: Array, contract: str) -> Array:
    shifted, e, _ = shifted_exp(x, contract)
    return np.asarray(shifted - exact.log(arithmetic.sum(e, contract)))


def _softmax_backward(grad: Array, output: Array, contract: str) -> Array:
    return np.asarray((grad - arithmetic.sum(grad * output, contract)) * output)


def _log_softmax_backward(grad: Array, output: Array, contract: str) -> Array:
    return np.asarray(grad - exact.exp(output) * arithmetic.sum(grad, contract))


def _along(function: Callable[..., Array]) -> Callable[..., torch.Tensor]:
    """`function` on rows along the first axis, as an op that takes `dim`."""

    def run(*args: Any) -> torch.Tensor:
        *tensors, dim, contract = args
        shape = tensors[0].shape
        rows = [np.moveaxis(to_numpy(t) if t.dim() else to_numpy(t).reshape(1), dim, 0) for t in tensors]
        with np.errstate(all="ignore"):
            return to_torch(np.moveaxis(function(*rows, contract), 0, dim).reshape(shape))

    return run


OPS = {
    "softmax": _along(_softmax),
    "log_softmax": _along(_log_softmax),
    "softmax_backward": _along(_softmax_backward),
    "log_softmax_backward": _along(_log_softmax_backward),
}
