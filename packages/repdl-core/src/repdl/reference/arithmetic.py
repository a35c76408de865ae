"""The arithmetic of the contract on numpy arrays, float32 or float64: one IEEE rounding an operation.

numpy's `+ - * /` and `sqrt` are single IEEE roundings already. It has no fused multiply-add,
so `fma` builds one: from float64 operations for float32, and for float64 from the error
terms of its operations, or from fractions where those are not exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from repdl.contract import Contract, as_contract

Array = NDArray[Any]
"""Of float32 or float64."""
ZERO, ONE = np.float32(0.0), np.float32(1.0)
"""They take the dtype of the other operand: float64 beside float64."""
CANONICAL_NAN = np.uint32(0x7FC00000).view(np.float32)
CANONICAL_NAN_64 = np.uint64(0x7FF8000000000000).view(np.float64)


def to_numpy(tensor: torch.Tensor) -> Array:
    """A contiguous copy in logical row-major order."""
    return np.array(tensor.detach().numpy(), order="C", copy=True)


def to_torch(array: Array | np.floating[Any]) -> torch.Tensor:
    """The result of an op: every NaN becomes the one quiet NaN of the dtype."""
    result = np.array(array, order="C", copy=True)
    result[np.isnan(result)] = CANONICAL_NAN if result.dtype == np.float32 else CANONICAL_NAN_64
    return torch.from_numpy(result)


def scalar(n: int, like: Array) -> np.floating[Any]:
    """An integer, rounded once to the dtype of `like`."""
    return like.dtype.type(n)


def rounded(x: float | np.float64, like: Array) -> Array:
    """A double, rounded once to the dtype of `like`: rounded( ) of the texts."""
    return np.asarray(np.float64(x).astype(like.dtype))


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once to the dtype of the operands."""
    operands = [np.asarray(x) for x in (a, b, c)]
    return (fma64 if any(x.dtype == np.float64 for x in operands) else fma32)(*operands)


def fma32(a: Array, b: Array, c: Array) -> Array:
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


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and its error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b rounded, and its error (Dekker): exact halves of 26 bits."""
    halves = []
    for x in (a, b):
        scaled = x * 134217729.0  # 2**27 + 1
        high = scaled - (scaled - x)
        halves.append((high, x - high))
    (ah, al), (bh, bl) = halves
    p = a * b
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once to float64.

    Boldo and Melquiond (see fma32), figure "Fmac": the error of the product and that of a
    sum are added, rounded to odd, to the rounded rest. Where an error term could underflow
    or a product overflow, the number is computed with fractions.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        plain = np.asarray(a * b + c)
        uh, ul = _two_product(a, b)
        th, tl = _two_sum(c, ul)
        vh, vl = _two_sum(uh, th)
        s = np.asarray(tl + vl)
        t = s - tl
        error = (tl - (s - t)) + (vl - t)
        bits = s.view(np.int64)
        away = np.where((error > 0) == (s > 0), 1, -1)
        odd = np.where((error != 0) & (bits & 1 == 0), bits + away, bits).view(np.float64)
        result = np.asarray(vh + odd)
        sizes = [np.abs(x) for x in (a, b, c)]
        factors = [(x >= 2.0**-400) & (x <= 2.0**400) for x in sizes[:2]]
        safe = factors[0] & factors[1] & (sizes[2] >= 2.0**-800) & (sizes[2] <= 2.0**900)
        finite = np.isfinite(a) & np.isfinite(b)
        # One product of finite numbers and an infinity: the infinity. A zero factor: the sum of two numbers. Else c is
        # zero: the product, whose sign a zero that it is rounded to keeps.
        result = np.where(safe, result, np.where(finite & np.isinf(c), c, plain))
        without = finite & (a != 0) & (b != 0) & (c == 0)
        result = np.where(without, a * b, result)
        hard = finite & np.isfinite(c) & (a != 0) & (b != 0) & (c != 0) & ~safe
    result = np.array(result)
    result[hard] = [exact_fma(*map(float, row)) for row in zip(a[hard], b[hard], c[hard])]
    return result


def exact_fma(a: float, b: float, c: float) -> float:
    """a * b + c for finite a and b that are not zero, and finite c."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0  # of a number and its negative: +0, rounding to nearest
    sign = 1.0 if exact > 0 else -1.0
    try:
        # A quotient of Python integers is correctly rounded, subnormal ones too.
        return sign * (abs(exact.numerator) / exact.denominator)
    except OverflowError:
        return sign * math.inf


def tree(parts: Sequence[Array]) -> Array:
    """Join partial results: split at the largest power of two below their number."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << ((len(parts) - 1).bit_length() - 1)
    with np.errstate(all="ignore"):
        return np.asarray(tree(parts[:half]) + tree(parts[half:]))


def dot(a: Array, b: Array, contract: Contract | str) -> Array:
    """The dot product of the contract over the first axis: `(K, ...) , (K, ...) -> (...)`.

    Chains of `dot_chunk` fused multiply-adds from +0 in ascending k, joined by the tree.
    """
    shape = np.broadcast_shapes(a.shape[1:], b.shape[1:])
    k = a.shape[0]
    chunk = as_contract(contract).dot_chunk or max(k, 1)
    parts = []
    for start in range(0, k, chunk):
        acc = np.zeros(shape, a.dtype)
        for i in range(start, min(start + chunk, k)):
            acc = fma(a[i], b[i], acc)
        parts.append(acc)
    return tree(parts) if parts else np.zeros(shape, a.dtype)


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
            lane = np.zeros((lanes, *x.shape[1:]), x.dtype)
            for i in range(min(block, n - start)):
                lane[i % lanes] += x[start + i]
            width = lanes
            while width > 1:
                width //= 2
                lane = lane[:width] + lane[width:]
            parts.append(lane[0])
    return tree(parts) if parts else np.zeros(x.shape[1:], x.dtype)
