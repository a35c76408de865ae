"""The arithmetic of the contract on numpy arrays: one IEEE rounding an operation.

numpy's float32 `+ - * /` and `sqrt` are single IEEE roundings already. It has no fused
multiply-add, so `fma` builds one from float64 operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from repdl.contract import Contract, as_contract

Array = NDArray[np.float32]
ZERO, ONE = np.float32(0.0), np.float32(1.0)
CANONICAL_NAN = np.uint32(0x7FC00000).view(np.float32)


def to_numpy(tensor: torch.Tensor) -> Array:
    """A contiguous copy in logical row-major order."""
    return np.array(tensor.detach().numpy(), order="C", copy=True)


def to_torch(array: Array | np.float32) -> torch.Tensor:
    """The result of an op: every NaN becomes the one quiet NaN 0x7fc00000."""
    result = np.array(array, dtype=np.float32, order="C", copy=True)
    result[np.isnan(result)] = CANONICAL_NAN
    return torch.from_numpy(result)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once to float32.

    The product of two float32 is exact in float64. The sum `s` is rounded to odd (an
    inexact result gets its last bit set), which makes the second rounding, to float32,
    the only one that counts: Boldo and Melquiond, "Emulation of FMA and correctly
    rounded sums: proved algorithms using rounding to odd", IEEE TC 57(4), 2008.
    """
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        addend = c.astype(np.float64)
        s = np.asarray(product + addend)
        t = s - product
        error = (product - (s - t)) + (addend - t)
        bits = s.view(np.int64)
        to_odd = (error != 0) & np.isfinite(s) & (bits & 1 == 0)
        away = np.where((error > 0) == (s > 0), 1, -1)
        odd = np.where(to_odd, bits + away, bits).view(np.float64)
        return np.asarray(odd.astype(np.float32))


def tree(parts: Sequence[Array]) -> Array:
    """Join partial results: split at the largest power of two below their number."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << ((len(parts) - 1).bit_length() - 1)
    with np.errstate(all="ignore"):
        return np.asarray(tree(parts[:half]) + tree(parts[half:]), dtype=np.float32)


def dot(a: Array, b: Array, contract: Contract | str) -> Array:
    """The dot product of the contract over the first axis: `(K, ...) , (K, ...) -> (...)`.

    Chains of `dot_chunk` fused multiply-adds from +0 in ascending k, joined by the tree.
    """
    shape = np.broadcast_shapes(a.shape[1:], b.shape[1:])
    k = a.shape[0]
    chunk = as_contract(contract).dot_chunk or max(k, 1)
    parts = []
    for start in range(0, k, chunk):
        acc = np.zeros(shape, np.float32)
        for i in range(start, min(start + chunk, k)):
            acc = fma(a[i], b[i], acc)
        parts.append(acc)
    return tree(parts) if parts else np.zeros(shape, np.float32)


def sum(x: Array, contract: Contract | str) -> Array:
    """The sum of the contract over the first axis: `(N, ...) -> (...)`.

    Blocks of `sum_block`; in a block element i goes to lane i mod `sum_lanes`, each lane
    a chain of adds from +0; lanes fold by halves; blocks are joined by the tree.
    """
    chosen = as_contract(contract)
    n, lanes = x.shape[0], chosen.sum_lanes
    block = chosen.sum_block or max(n, 1)
    parts = []
    with np.errstate(all="ignore"):
        for start in range(0, n, block):
            lane = np.zeros((lanes, *x.shape[1:]), np.float32)
            for i in range(min(block, n - start)):
                lane[i % lanes] += x[start + i]
            width = lanes
            while width > 1:
                width //= 2
                lane = lane[:width] + lane[width:]
            parts.append(lane[0])
    return tree(parts) if parts else np.zeros(x.shape[1:], np.float32)
