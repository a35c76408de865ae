"""Reference of `contract/v1/distributions.md`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from repdl.reference import exact
from repdl.reference.arithmetic import Array, fma, rounded, to_numpy, to_torch
from repdl.reference.sampling.random import FIRST_ATTEMPT, SPAWN, Wide, Words, numbers, wide_words, words

Bits = NDArray[Any]
"""Words, or 64 bits of two of them: uint32 or uint64."""
PAIRS = 2
"""The plane of the pairs of the normal distribution."""
LN_2 = float.fromhex("0x1.62e42fefa2p-1"), float.fromhex("0x1.9ef35793c7673p-41")
"""ln 2 to 40 bits, and the rest."""


def half_open(position: torch.Tensor, number: Wide, plane: int, like: Array) -> Array:
    """In [0, 1): multiples of 2**-24, in float64 of 2**-53."""
    if like.dtype == np.float64:
        return (wide_words(position, number, plane) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (words(position, number, plane) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def log_double(x: Array) -> Array:
    """log(x) of normal positive doubles, as the text writes it out."""
    root = np.uint64(0x3FE6A09E667F3BCD)  # sqrt(1/2)
    shifted = x.view(np.uint64) + (np.uint64(0x3FF0000000000000) - root)
    n = (shifted >> np.uint64(52)).astype(np.float64) - 1023.0
    f = ((shifted & np.uint64(0x000FFFFFFFFFFFFF)) + root).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z, half = s * s, (0.5 * f) * f
    p = np.full_like(z, 2 / 25)
    for k in range(11, 0, -1):
        p = fma(p, z, np.asarray(2 / (2 * k + 1)))
    tail = half - s * fma(z, p, half)
    return fma(n, np.asarray(LN_2[0]), f - fma(-n, np.asarray(LN_2[1]), tail))


def direction(turn: Wide) -> tuple[Array, Array]:
    """Cosine and sine of the angle of `turn` 2**-64 turns."""
    quarter = ((turn + np.uint64(1 << 61)) >> np.uint64(62)) % np.uint64(4)
    a = (turn << np.uint64(2)).view(np.int64).astype(np.float64) * (math.pi / 2 * 2.0**-64)
    z = a * a
    p, q = (np.full_like(z, x) for x in (1 / math.factorial(17), -1 / math.factorial(18)))
    for k in range(7, 0, -1):
        p = fma(p, z, np.asarray((-1) ** k / math.factorial(2 * k + 1)))
        q = fma(q, z, np.asarray((-1) ** (k + 1) / math.factorial(2 * k + 2)))
    sine, cosine = fma(a * z, p, a), fma(z * z, q, fma(np.asarray(-0.5), z, np.asarray(1.0)))
    x, y = np.where(quarter & np.uint64(1), sine, cosine), np.where(quarter & np.uint64(1), cosine, sine)
    left, below = (quarter + np.uint64(1)) & np.uint64(2), quarter & np.uint64(2)
    return np.where(left, -x, x), np.where(below, -y, y)


def left_open(bits: Bits) -> Array:
    """In (0, 1], with nearly all bits of the dtype everywhere: from 2**-33 on of a word, from 2**-65 on of 64 bits."""
    if bits.dtype == np.uint64:
        return fma(bits.astype(np.float64), np.asarray(2.0**-64), np.asarray(2.0**-65))
    return fma(bits.astype(np.float32), np.float32(2.0**-32), np.float32(2.0**-33))


def log(v: Array) -> Array:
    return log_double(v) if v.dtype == np.float64 else exact.log(v)


def angle(word: Words) -> Array:
    """In [-pi, pi]."""
    return word.view(np.int32).astype(np.float32) * np.float32(math.pi * 2.0**-31)


def cosine(bits: Bits) -> Array:
    return direction(bits)[0] if bits.dtype == np.uint64 else exact.cos(angle(bits))


def sine(bits: Bits) -> Array:
    return direction(bits)[1] if bits.dtype == np.uint64 else exact.sin(angle(bits))


def radius(bits: Bits) -> Array:
    """The length of a pair of normal numbers."""
    v = left_open(bits)
    return np.asarray(np.sqrt(v.dtype.type(-2.0) * log(v)))


def standard_exponential(bits: Bits) -> Array:
    v = left_open(bits)
    return np.where(v == 1, v.dtype.type(2.0**-54 if v.dtype == np.float64 else 2.0**-25), -log(v))


def bits_of(position: torch.Tensor, number: Wide, plane: int, like: Array) -> Bits:
    """A word, in float64 two as 64 bits."""
    return (wide_words if like.dtype == np.float64 else words)(position, number, plane)


def standard_normal(position: torch.Tensor, number: Wide, like: Array) -> Array:
    first = number & ~np.uint64(1)
    r = radius(bits_of(position, first, PAIRS, like))
    turn = bits_of(position, first + np.uint64(1), PAIRS, like)
    return np.where(number & np.uint64(1), r * sine(turn), r * cosine(turn))


def _like(like: torch.Tensor) -> Array:
    return np.zeros((), np.float64 if like.dtype is torch.float64 else np.float32)


def uniform(like: torch.Tensor, position: torch.Tensor, low: float, high: float, limit: float) -> torch.Tensor:
    one = _like(like)
    u = half_open(position, numbers(position, like.numel()), 0, one)
    x = fma(u, rounded(high - low, one), rounded(low, one))
    return to_torch(np.minimum(x, rounded(limit, one)).reshape(like.shape))


def normal(like: torch.Tensor, position: torch.Tensor, mean: float, std: float) -> torch.Tensor:
    one = _like(like)
    z = standard_normal(position, numbers(position, like.numel()), one)
    with np.errstate(all="ignore"):
        x = fma(z, rounded(std, one), rounded(mean, one))
    return to_torch(x.reshape(like.shape))


def exponential(like: torch.Tensor, position: torch.Tensor, lambd: float) -> torch.Tensor:
    one, n = _like(like), numbers(position, like.numel())
    e = standard_exponential(bits_of(position, n, 0, one))
    with np.errstate(all="ignore"):
        x = e / rounded(lambd, one)
    return to_torch(x.reshape(like.shape))


def truncated_normal(
    like: torch.Tensor, position: torch.Tensor, mean: float, std: float, a: float, b: float
) -> torch.Tensor:
    one, n = _like(like), numbers(position, like.numel())
    low, high = (a - mean) / std, (b - mean) / std
    mirrored = low + high < 0 if high - low < math.inf else high < math.inf
    if mirrored:
        low, high = -high, -low
    rate = (low + math.sqrt(low * low + 4.0)) / 2.0
    lo, hi, width, top, at = (rounded(x, one) for x in (low, high, high - low, max(low, 0.0), rate))
    planes = 2 if one.dtype == np.float64 else 1

    def happen(bits: Bits, q: Array) -> np.ndarray:
        """Events of the probabilities exp(-q / 2)."""
        if q.dtype == np.float64:
            return np.asarray(standard_exponential(bits) >= 0.5 * q)
        return np.asarray(left_open(bits) <= exact.exp(np.float32(-0.5) * q))

    result, left = np.zeros(n.size, dtype=one.dtype), np.arange(n.size)
    for plane in range(FIRST_ATTEMPT, SPAWN - 2 * planes + 1, 2 * planes):
        first, second = (bits_of(position, n[left], p, one) for p in (plane, plane + planes))
        with np.errstate(all="ignore"):
            if low < 0.5 and high - low > 2.0:
                z = radius(first) * cosine(second)
                accepted = (z >= lo) & (z <= hi)
            elif low * (high - low) <= 1.0:
                z = np.minimum(fma(half_open(position, n[left], plane, one), width, lo), hi)
                accepted = happen(second, (z - top) * (z + top))
            else:
                z = lo + standard_exponential(first) / at
                d = z - at
                accepted = (z <= hi) & happen(second, d * d)
        result[left] = z
        left = left[~accepted]
        if not left.size:
            break
    with np.errstate(all="ignore"):
        x = fma(-result if mirrored else result, rounded(std, one), rounded(mean, one))
    x = np.minimum(np.maximum(x, rounded(a, one)), rounded(b, one))
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


def inside(word: Words) -> Array:
    """In (0, 1), exactly."""
    return np.asarray((word.astype(np.float64) + 0.5) * 2.0**-32)


def _arrivals(position: torch.Tensor, n: Wide, rate: Array) -> Array:
    total, count, left = np.zeros(n.size), np.zeros(n.size), np.arange(n.size)
    for plane in range(FIRST_ATTEMPT, SPAWN):
        total[left] = total[left] - log_double(inside(words(position, n[left], plane)))
        left = left[total[left] <= rate[left]]
        count[left] += 1
        if not left.size:
            break
    return count


def _stirling(k: Array) -> Array:
    """log(k!) - k log(k) + k."""
    square = k * k
    series = (1 / 12 - (1 / 360 - (1 / 1260) / square) / square) / k
    return np.asarray(0.5 * log_double(k) + (float.fromhex("0x1.d67f1c864beb5p-1") + series))


def _transformed(position: torch.Tensor, n: Wide, rate: Array) -> Array:
    result, left = np.zeros(n.size), np.arange(n.size)
    root_b = 0.931 + 2.53 * np.sqrt(rate)
    root_a = 0.02483 * root_b - 0.059
    for plane in range(FIRST_ATTEMPT, SPAWN - 1, 2):
        if not left.size:
            break
        mu, b, a = rate[left], root_b[left], root_a[left]
        u = inside(words(position, n[left], plane)) - 0.5
        v = inside(words(position, n[left], plane + 1))
        s = 0.5 - np.abs(u)
        k = np.floor(((2.0 * a) / s + b) * u + mu + 0.43)
        quick = (s >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
        possible = ~((k < 1) | ((s < 0.013) & (v > s)))
        whole = np.where(k < 1, 1.0, k)
        density = whole * log_double(mu / whole) + (whole - mu) - _stirling(whole)
        slow = log_double((v * (1.1239 + 1.1328 / (b - 3.4))) / (a / (s * s) + b)) <= density
        result[left] = k
        left = left[~(quick | (possible & slow))]
    return result


def poisson(rate: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    x = to_numpy(rate)
    wide, n = x.reshape(-1).astype(np.float64), numbers(position, x.size)
    large = wide >= 30
    result = np.zeros(x.size)
    result[large] = _transformed(position, n[large], wide[large])
    result[~large] = _arrivals(position, n[~large], wide[~large])
    return to_torch(result.reshape(x.shape).astype(x.dtype))


OPS = {
    "poisson": poisson,
    "uniform": uniform,
    "normal": normal,
    "exponential": exponential,
    "truncated_normal": truncated_normal,
    "bernoulli": bernoulli,
    "bernoulli_scalar": bernoulli_scalar,
}
