"""Reference of `contract/v1/cell.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import ONE, Array, to_numpy, to_torch


def _elements(*counts: int) -> Callable[[Callable[..., tuple[Any, ...]]], Callable[..., tuple[torch.Tensor, ...]]]:
    """A function of tensors, of which tensor i has `counts[i]` values of an element, from one of those values.

    The function gives a tuple of outputs, each one value or a list of them.
    """

    def wrap(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[torch.Tensor, ...]]:
        def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            values: list[Array] = []
            for tensor, count in zip(tensors, counts):
                values += np.split(to_numpy(tensor), count, axis=1)
            with np.errstate(all="ignore"):
                outputs = function(*values)
            return tuple(to_torch(np.concatenate(o, axis=1) if isinstance(o, list) else o) for o in outputs)

        return run

    return wrap


def _sigmoid_slope(y: Array) -> Array:
    return (ONE - y) * y


def _tanh_slope(y: Array) -> Array:
    return ONE - y * y


@_elements(4, 4, 1)
def lstm_gates(
    xi: Array, xf: Array, xg: Array, xo: Array, hi: Array, hf: Array, hg: Array, ho: Array, cell: Array
) -> tuple[Any, ...]:
    i, f, g, o = exact.sigmoid(xi + hi), exact.sigmoid(xf + hf), exact.tanh(xg + hg), exact.sigmoid(xo + ho)
    new_cell = f * cell + i * g
    return o * exact.tanh(new_cell), new_cell, [i, f, g, o]


@_elements(1, 1, 4, 1, 1)
def lstm_gates_backward(
    grad: Array, grad_cell: Array, i: Array, f: Array, g: Array, o: Array, cell: Array, new_cell: Array
) -> tuple[Any, ...]:
    t = exact.tanh(new_cell)
    d = grad_cell + (grad * o) * _tanh_slope(t)
    to_gates = [
        (d * g) * _sigmoid_slope(i),
        (d * cell) * _sigmoid_slope(f),
        (d * i) * _tanh_slope(g),
        (grad * t) * _sigmoid_slope(o),
    ]
    return to_gates, d * f


@_elements(3, 3, 1)
def gru_gates(xr: Array, xz: Array, xn: Array, hr: Array, hz: Array, hn: Array, state: Array) -> tuple[Any, ...]:
    r, z = exact.sigmoid(xr + hr), exact.sigmoid(xz + hz)
    n = exact.tanh(xn + r * hn)
    return (state - n) * z + n, [r, z, n, hn]


@_elements(1, 4, 1)
def gru_gates_backward(grad: Array, r: Array, z: Array, n: Array, hn: Array, state: Array) -> tuple[Any, ...]:
    kept = grad * z
    new = (grad - kept) * _tanh_slope(n)
    reset = (new * hn) * _sigmoid_slope(r)
    update = (grad * (state - n)) * _sigmoid_slope(z)
    return [reset, update, new], [reset, update, new * r], kept


OPS = {
    "gru_gates": gru_gates,
    "gru_gates_backward": gru_gates_backward,
    "lstm_gates": lstm_gates,
    "lstm_gates_backward": lstm_gates_backward,
}
