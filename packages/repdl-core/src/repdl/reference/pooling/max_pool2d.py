"""Reference of `contract/v1/max_pool2d.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.ops.pooling.max_pool2d import pooled_size
from repdl.reference.arithmetic import to_numpy, to_torch


def max_pool2d(
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    x = to_numpy(input)
    n, c, *size = x.shape
    oh, ow = (pooled_size(size[i], kernel_size[i], stride[i], padding[i], dilation[i], ceil_mode) for i in (0, 1))
    output = np.zeros((n, c, oh, ow), x.dtype)
    indices = np.zeros((n, c, oh, ow), np.int64)
    for y in range(oh):
        for z in range(ow):
            rows = [y * stride[0] - padding[0] + k * dilation[0] for k in range(kernel_size[0])]
            columns = [z * stride[1] - padding[1] + k * dilation[1] for k in range(kernel_size[1])]
            window = [(h, w) for h in rows if 0 <= h < size[0] for w in columns if 0 <= w < size[1]]
            h, w = window[0]
            best, index = x[:, :, h, w], np.full((n, c), h * size[1] + w)
            for h, w in window[1:]:
                value = x[:, :, h, w]
                replace = (value > best) | np.isnan(value)
                best, index = np.where(replace, value, best), np.where(replace, h * size[1] + w, index)
            output[:, :, y, z], indices[:, :, y, z] = best, index
    return to_torch(output), torch.from_numpy(indices)


def max_pool2d_backward(grad: torch.Tensor, indices: torch.Tensor, input_size: Sequence[int]) -> torch.Tensor:
    g, index = to_numpy(grad), indices.numpy()
    out = np.zeros((*g.shape[:2], input_size[0] * input_size[1]), g.dtype)
    n, c = np.indices(g.shape[:2])
    with np.errstate(all="ignore"):
        for y in range(g.shape[2]):
            for z in range(g.shape[3]):
                out[n, c, index[:, :, y, z]] += g[:, :, y, z]
    return to_torch(out.reshape(*g.shape[:2], *input_size))


OPS = {"max_pool2d": max_pool2d, "max_pool2d_backward": max_pool2d_backward}
