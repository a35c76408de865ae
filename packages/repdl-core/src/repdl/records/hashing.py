"""A digest of 64 bits of a tensor's elements: in C where a backend brings the call cache, and in numpy.

The bytes of the elements in row-major order, each little-endian, are filled up with zeros to words `w[0], w[1], ...`
of 64 bits. The digest is `mix(length + sum of mix(w[i] + (i + 1) * STEP))` modulo 2**64, `length` the number of bytes.
`mix` is one-to-one, so that a change of one word always changes the digest; the words can be added in any order.
Whoever wants to can make two tensors of one digest: where that matters there is SHA-256, `repdl.digest`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from repdl.callcache.extension import c_extension
from repdl.tensors.raw import raw_bytes

STEP, FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
"""Those of SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014)."""
_MASK = (1 << 64) - 1
_HALF = np.uint64(32)
_WORDS = 1 << 14
"""At once: what is computed stays in the first levels of cache."""
with np.errstate(over="ignore"):
    _STEPS = STEP * np.arange(1, _WORDS + 1, dtype=np.uint64)


def _mixed(words: np.ndarray) -> np.ndarray:
    """`mix` of each of the words, in place."""
    words ^= words >> _HALF
    words *= FACTOR
    words ^= words >> _HALF
    return words


def mix(word: int) -> int:
    """A word, each of whose bits depends on all of the given one: one-to-one."""
    word ^= word >> 32
    word = word * int(FACTOR) & _MASK
    return word ^ word >> 32


def by_numpy(raw: bytes | memoryview) -> int:
    """`digest_of_bytes` in numpy."""
    data = np.frombuffer(raw, dtype=np.uint8)
    count, rest = divmod(len(data), 8)
    words, total = data[: 8 * count].view("<u8"), len(data)
    for begin in range(0, count, _WORDS):
        part = words[begin : begin + _WORDS]
        with np.errstate(over="ignore"):
            total += int(_mixed(part + (_STEPS[: len(part)] + STEP * np.uint64(begin))).sum(dtype=np.uint64))
    if rest:
        last = int.from_bytes(data[8 * count :].tobytes(), "little")
        total += mix(last + (count + 1) * int(STEP) & _MASK)
    return mix(total & _MASK)


digest_of_bytes: Callable[[bytes | memoryview], int] = getattr(c_extension(), "digest_of_bytes", by_numpy)
"""The digest of bytes: C reads some 10 GB in a second, numpy a tenth of it."""


def fast_digest(tensor: torch.Tensor) -> int:
    """The digest of a tensor's elements, as its dtype and its shape are known; signs of zeros and NaN bits count."""
    return digest_of_bytes(raw_bytes(tensor))


__all__ = ["by_numpy", "digest_of_bytes", "fast_digest", "mix"]
