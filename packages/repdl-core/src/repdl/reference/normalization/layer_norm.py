"""Reference of `contract/v1/layer_norm.md`; `normalise` and `gradient` are its steps on rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.ops.normalization._norm import statistics_shape
from repdl.reference import arithmetic
from repdl.reference.arithmetic import ONE, Array, fma, rounded, scalar, to_numpy, to_torch


def by_row(tensor: torch.Tensor, elements: int) -> Array:
    """A tensor as (n, rows), n row-major over the last dimensions, which have `elements` elements."""
    rows = tensor.numel() // elements if elements else 0
    return np.ascontiguousarray(to_numpy(tensor).reshape(rows, elements).T)


def scaled(h: Array, weight: Array | None, bias: Array | None) -> Array:
    """Step 3, weight and bias in the shape of h."""
    if weight is not None and bias is not None:
        return fma(h, weight, bias)
    if weight is not None:
        return h * weight
    return h if bias is None else h + bias


def normalise(x: Array, eps: float, contract: str) -> tuple[Array, Array, Array]:
    """Steps 1 to 3 on (n, rows): h, mean, rstd."""
    n = scalar(x.shape[0], x)
    mean = arithmetic.sum(x, contract) / n
    d = x - mean
    var = arithmetic.sum(d * d, contract) / n
    rstd = ONE / np.sqrt(var + rounded(eps, x))
    return d * rstd, mean, rstd


def gradient(w: Array, h: Array, rstd: Array, contract: str) -> Array:
    """Step 4 on (n, rows)."""
    n = scalar(w.shape[0], w)
    s, t = arithmetic.sum(w, contract), arithmetic.sum(w * h, contract)
    return rstd * fma(-h, np.broadcast_to(t / n, h.shape), w - s / n)


def vector(tensor: torch.Tensor | None, like: Array) -> Array | None:
    """normalized_shape as (n, rows)."""
    return None if tensor is None else np.broadcast_to(to_numpy(tensor).reshape(-1, 1), like.shape)


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    x = by_row(input, int(np.prod(normalized_shape)))
    shape = statistics_shape(input, normalized_shape)
    if input.numel() == 0:  # the rows of an empty input cannot be told from its elements
        nan = torch.full(shape, float("nan"), dtype=input.dtype)
        return to_torch(to_numpy(input)), to_torch(to_numpy(nan)), to_torch(to_numpy(nan))
    with np.errstate(all="ignore"):
        h, mean, rstd = normalise(x, eps, contract)
        out = scaled(h, vector(weight, h), vector(bias, h))
    return to_torch(out.T.reshape(input.shape)), to_torch(mean.reshape(shape)), to_torch(rstd.reshape(shape))


def layer_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    elements = int(np.prod(normalized_shape))
    g, x = by_row(grad, elements), by_row(input, elements)
    if input.numel() == 0:
        return to_torch(to_numpy(input)), *(torch.zeros(tuple(normalized_shape), dtype=input.dtype) for _ in "wb")
    m, r = to_numpy(mean).reshape(-1), to_numpy(rstd).reshape(-1)
    with np.errstate(all="ignore"):
        h = (x - m) * r
        scale = vector(weight, g)
        w = g if scale is None else g * scale
        out = gradient(w, h, r, contract)
        sums = [arithmetic.sum(np.ascontiguousarray(t.T), contract).reshape(normalized_shape) for t in (g * h, g)]
    return to_torch(out.T.reshape(input.shape)), to_torch(sums[0]), to_torch(sums[1])


OPS = {"layer_norm": layer_norm, "layer_norm_backward": layer_norm_backward}
