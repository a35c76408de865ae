"""Reference of `contract/v1/distributions.md`."""

from __future__ import annotations

import math

import numpy as np
import torch

from repdl.reference import exact
from repdl.reference.arithmetic import Array, fma, rounded, to_numpy, to_torch
from repdl.reference.random import FIRST_ATTEMPT, SPAWN, Wide, Words, numbers, wide_words, words

PAIRS = 2
"""The plane of the pairs of the normal distribution."""
SINGLE = np.zeros((), np.float32)


def half_open(position: torch.Tensor, number: Wide, plane: int, like: Array) -> Array:
    """In [0, 1): multiples of 2**-24, in float64 of 2**-53."""
    if like.dtype == np.float64:
        return (wide_words(position, number, plane) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (words(position, number, plane) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def left_open(word: Words) -> Array:
    """In (0, 1]: from 2**-33 on, with nearly 24 bits everywhere."""
    return fma(word.astype(np.float32), np.float32(2.0**-32), np.float32(2.0**-33))


def angle(word: Words) -> Array:
    """In [-pi, pi]."""
    return word.view(np.int32).astype(np.float32) * np.float32(math.pi * 2.0**-31)


def radius(word: Words) -> Array:
    """The length of a pair of normal numbers."""
    return np.sqrt(np.float32(-2.0) * exact.log(left_open(word)))


def standard_normal(position: torch.Tensor, number: Wide) -> Array:
    first = number & ~np.uint64(1)
    r = radius(words(position, first, PAIRS))
    t = angle(words(position, first + np.uint64(1), PAIRS))
    return np.where(number & np.uint64(1), r * exact.sin(t), r * exact.cos(t))


def standard_exponential(word: Words) -> Array:
    v = left_open(word)
    return np.where(v == 1, np.float32(2.0**-25), -exact.log(v))


def _like(like: torch.Tensor) -> Array:
    return np.zeros((), np.float64 if like.dtype is torch.float64 else np.float32)


def uniform(like: torch.Tensor, position: torch.Tensor, low: float, high: float, limit: float) -> torch.Tensor:
    one = _like(like)
    u = half_open(position, numbers(position, like.numel()), 0, one)
    x = fma(u, rounded(high - low, one), rounded(low, one))
    return to_torch(np.minimum(x, rounded(limit, one)).reshape(like.shape))


def normal(like: torch.Tensor, position: torch.Tensor, mean: float, std: float) -> torch.Tensor:
    z = standard_normal(position, numbers(position, like.numel()))
    with np.errstate(all="ignore"):
        x = fma(z, rounded(std, SINGLE), rounded(mean, SINGLE))
    return to_torch(x.reshape(like.shape))


def exponential(like: torch.Tensor, position: torch.Tensor, lambd: float) -> torch.Tensor:
    e = standard_exponential(words(position, numbers(position, like.numel()), 0))
    with np.errstate(all="ignore"):
        x = e / rounded(lambd, SINGLE)
    return to_torch(x.reshape(like.shape))


def truncated_normal(
    like: torch.Tensor, position: torch.Tensor, mean: float, std: float, a: float, b: float
) -> torch.Tensor:
    n = numbers(position, like.numel())
    low, high = (a - mean) / std, (b - mean) / std
    mirrored = low + high < 0 if high - low < math.inf else high < math.inf
    if mirrored:
        low, high = -high, -low
    rate = (low + math.sqrt(low * low + 4.0)) / 2.0
    lo, hi, width, top, at = (rounded(x, SINGLE) for x in (low, high, high - low, max(low, 0.0), rate))
    result, left = np.zeros(n.size, dtype=np.float32), np.arange(n.size)
    minus_half = np.float32(-0.5)
    for plane in range(FIRST_ATTEMPT, SPAWN - 1, 2):
        first, second = (words(position, n[left], p) for p in (plane, plane + 1))
        with np.errstate(all="ignore"):
            if low < 0.5 and high - low > 2.0:
                z = radius(first) * exact.cos(angle(second))
                accepted = (z >= lo) & (z <= hi)
            elif low * (high - low) <= 1.0:
                z = np.minimum(fma(half_open(position, n[left], plane, SINGLE), width, lo), hi)
                accepted = left_open(second) <= exact.exp(minus_half * ((z - top) * (z + top)))
            else:
                z = lo + standard_exponential(first) / at
                d = z - at
                accepted = (z <= hi) & (left_open(second) <= exact.exp(minus_half * (d * d)))
        result[left] = z
        left = left[~accepted]
        if not left.size:
            break
    with np.errstate(all="ignore"):
        x = fma(-result if mirrored else result, rounded(std, SINGLE), rounded(mean, SINGLE))
    x = np.minimum(np.maximum(x, rounded(a, SINGLE)), rounded(b, SINGLE))
    return to_torch(x.reshape(like.shape))


def happens(position: torch.Tensor, p: Array) -> np.ndarray:
    """Whether each word is below the threshold of its probability."""
    n = numbers(position, p.size)
    threshold = np.floor(p.reshape(-1).astype(np.float64) * 2.0**32).astype(np.uint64)
    return (words(position, n, 0) < threshold).reshape(p.shape)


def bernoulli(p: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    x = to_numpy(p)
    return to_torch(happens(position, x).astype(x.dtype))


def bernoulli_scalar(like: torch.Tensor, position: torch.Tensor, p: float) -> torch.Tensor:
    return to_torch(happens(position, np.full(like.shape, p)).astype(_like(like).dtype))


OPS = {
    "uniform": uniform,
    "normal": normal,
    "exponential": exponential,
    "truncated_normal": truncated_normal,
    "bernoulli": bernoulli,
    "bernoulli_scalar": bernoulli_scalar,
}
