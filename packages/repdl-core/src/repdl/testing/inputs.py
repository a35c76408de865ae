"""Inputs that are the same bits on every machine, made of integers only."""

from __future__ import annotations

import numpy as np
import torch

SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 2.0**-149, -(2.0**-149), 2.0**-126, 2.0**127, 1.0]
"""Values that take the rare paths: zeros, infinities, NaN, subnormals, the largest exponent."""


def integers(seed: int, n: int) -> np.ndarray:
    """n 64-bit integers: SplitMix64 of seed and counter (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, n + 1, dtype=np.uint64) + np.uint64(seed * 1_000_003)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(seed: int, *shape: int, scale: float = 1.0, special: bool = False) -> torch.Tensor:
    """Float32 multiples of 2**-23 in [-1, 1) times `scale` (a power of two keeps it exact).

    With `special`, about one element in eight is one of `SPECIAL`.
    """
    n = int(np.prod(shape, dtype=np.int64))
    z = integers(seed, n)
    x = ((z >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1.0) * scale
    x = x.astype(np.float32)
    if special:
        pick = (z & np.uint64(7)) == 0
        x[pick] = np.array(SPECIAL, np.float32)[((z >> np.uint64(8)) % np.uint64(len(SPECIAL)))[pick].astype(int)]
    return torch.from_numpy(x.reshape(shape))


def floats(*bits: int) -> torch.Tensor:
    """Float32 from their bit patterns."""
    return torch.from_numpy(np.array(bits, np.uint32).view(np.float32))


def index(seed: int, high: int, *shape: int) -> torch.Tensor:
    """Int64 in [0, high)."""
    n = int(np.prod(shape, dtype=np.int64))
    return torch.from_numpy((integers(seed, n) % np.uint64(high)).astype(np.int64).reshape(shape))
