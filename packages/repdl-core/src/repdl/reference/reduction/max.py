"""Reference of `contract/v1/max.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference.arithmetic import ZERO, scalar, to_numpy, to_torch


def _first_largest(rows: np.ndarray) -> np.ndarray:
    """The index along the last axis: the first NaN, else the first of the largest."""
    nan = np.isnan(rows)
    largest = np.argmax(np.where(nan, np.float32(-np.inf), rows), -1)
    return np.asarray(np.where(nan.any(-1), np.argmax(nan, -1), largest))


def max(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input).reshape(-1)
    return to_torch(x[_first_largest(x)])


def max_backward(grad: torch.Tensor, input: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    x, y = to_numpy(input), to_numpy(output)
    share = np.isnan(x) if np.isnan(y) else x == y
    with np.errstate(all="ignore"):
        each = to_numpy(grad) / scalar(int(share.sum()), x)
    return to_torch(np.where(share, each, ZERO))


def max_dim(input: torch.Tensor, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    x = to_numpy(input)
    rows = np.moveaxis(x, dim, -1) if x.ndim else x.reshape(1)
    index = _first_largest(rows)
    values = np.take_along_axis(rows, index[..., None], -1)[..., 0]
    if keepdim and x.ndim:
        values, index = np.expand_dims(values, dim), np.expand_dims(index, dim)
    return to_torch(values), torch.from_numpy(np.array(index, dtype=np.int64))


def amax(input: torch.Tensor) -> torch.Tensor:
    x = to_numpy(input)
    index = _first_largest(x) if x.size else np.zeros(x.shape[:-1], np.int64)
    return to_torch(np.take_along_axis(x, index[..., None], -1)[..., 0])


def amax_backward(grad: torch.Tensor, input: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    x, y = to_numpy(input), to_numpy(output)[..., None]
    share = np.where(np.isnan(y), np.isnan(x), x == y)
    counts = np.vectorize(lambda n: scalar(int(n), x), otypes=[x.dtype])(share.sum(-1)) if x.size else y[..., 0]
    with np.errstate(all="ignore"):
        each = to_numpy(grad) / counts
    return to_torch(np.where(share, each[..., None], ZERO))


OPS = {"amax": amax, "amax_backward": amax_backward, "max": max, "max_backward": max_backward, "max_dim": max_dim}
