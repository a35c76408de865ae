"""Reference of `contract/v1/conv2d.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import torch

from repdl.reference.arithmetic import Array, dot, to_numpy, to_torch


def _pad(x: Array, padding: Sequence[int]) -> Array:
    ph, pw = padding
    return np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))


def _columns(
    x: Array, kernel: Sequence[int], out: Sequence[int], stride: Sequence[int], dilation: Sequence[int], groups: int
) -> Array:
    """The terms of padded x: (N, G, C/G, KH, KW, OH, OW)."""
    n, c = x.shape[:2]
    rows = np.arange(out[0]) * stride[0] + np.arange(kernel[0])[:, None] * dilation[0]  # (KH, OH)
    cols = np.arange(out[1]) * stride[1] + np.arange(kernel[1])[:, None] * dilation[1]  # (KW, OW)
    terms = x[:, :, rows[:, None, :, None], cols[None, :, None, :]]  # (N, C, KH, KW, OH, OW)
    return terms.reshape(n, groups, c // groups, *terms.shape[2:])


def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> torch.Tensor:
    x, w = _pad(to_numpy(input), padding), to_numpy(weight)
    n, (o, c, kh, kw) = x.shape[0], w.shape
    oh = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    k = c * kh * kw
    terms = _columns(x, (kh, kw), (oh, ow), stride, dilation, groups).reshape(n, groups, k, oh * ow)
    a = terms.transpose(2, 0, 1, 3)[:, :, :, None, :]  # (K, N, G, 1, OH * OW)
    b = w.reshape(groups, o // groups, k).transpose(2, 0, 1)[:, None, :, :, None]  # (K, 1, G, O/G, 1)
    output = dot(a, b, contract).reshape(n, o, oh, ow)
    if bias is not None:
        with np.errstate(all="ignore"):
            output = output + to_numpy(bias)[:, None, None]
    return to_torch(output)


def conv2d_grad_weight(
    grad: torch.Tensor,
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> torch.Tensor:
    g, x = to_numpy(grad), _pad(to_numpy(input), padding)
    n, o, oh, ow = g.shape
    c = x.shape[1] // groups
    k = n * oh * ow
    terms = _columns(x, kernel_size, (oh, ow), stride, dilation, groups)
    b = terms.transpose(0, 5, 6, 1, 2, 3, 4).reshape(k, groups, 1, c * kernel_size[0] * kernel_size[1])
    a = g.reshape(n, groups, o // groups, oh, ow).transpose(0, 3, 4, 1, 2).reshape(k, groups, o // groups, 1)
    return to_torch(dot(a, b, contract).reshape(o, c, *kernel_size))


def _taps(
    kernel: int, size: int, out: int, stride: int, padding: int, dilation: int
) -> Iterator[tuple[Array, Array, Array]]:
    """Along one dimension: the taps that a stride brings to some inputs, these inputs, and for each
    pair of both (taps, inputs) the output whose gradient is the term, or `out` where there is none."""
    taps, inputs = np.arange(kernel), np.arange(size)
    for phase in range(min(stride, size)):
        mine = inputs[phase::stride]
        hit = taps[(phase + padding - taps * dilation) % stride == 0]
        at = (mine + padding - hit[:, None] * dilation) // stride
        yield hit, mine, np.where((at >= 0) & (at < out), at, out)


def conv2d_grad_input(
    grad: torch.Tensor,
    weight: torch.Tensor,
    input_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> torch.Tensor:
    g, w = to_numpy(grad), to_numpy(weight)
    n, o, oh, ow = g.shape
    c = w.shape[1]
    g = g.reshape(n, groups, o // groups, oh, ow)
    w = w.reshape(groups, o // groups, c, *w.shape[2:])
    g = np.pad(g, ((0, 0), (0, 0), (0, 0), (0, 1), (0, 1)))  # index oh or ow: a term outside, zero
    result = np.zeros((n, groups, c, *input_size), g.dtype)
    rows, columns = (
        list(_taps(w.shape[3 + i], input_size[i], (oh, ow)[i], stride[i], padding[i], dilation[i])) for i in (0, 1)
    )
    for (kh, h, i), (kw, v, j) in product(rows, columns):
        k = o // groups * len(kh) * len(kw)
        terms = g[:, :, :, i[:, None, :, None], j[None, :, None, :]]  # (N, G, O/G, KH, KW, H, W)
        a = terms.transpose(2, 3, 4, 0, 1, 5, 6).reshape(k, n, groups, 1, len(h), len(v))
        b = w[:, :, :, kh[:, None], kw].transpose(1, 3, 4, 0, 2).reshape(k, 1, groups, c, 1, 1)
        result[:, :, :, h[:, None], v] = dot(a, b, contract)
    return to_torch(result.reshape(n, groups * c, *input_size))


OPS = {"conv2d": conv2d, "conv2d_grad_input": conv2d_grad_input, "conv2d_grad_weight": conv2d_grad_weight}
