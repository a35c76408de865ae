"""Reference of `contract/v1/random.md`: Philox4x32-10, and integers made of its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Wide = NDArray[np.uint64]

FIRST_ATTEMPT = 3
"""The plane of the second attempt of a rejection method; the first plane after those with other uses."""
SPAWN = 65535


def philox(counter: Sequence[Any], key: Sequence[int]) -> list[Words]:
    """Philox4x32-10 of counters, four arrays or numbers of 32 bits, and one key of two words."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    low = np.uint64(0xFFFFFFFF)
    for round in range(10):
        k = [np.uint64((key[i] + round * weyl) & 0xFFFFFFFF) for i, weyl in enumerate((0x9E3779B9, 0xBB67AE85))]
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(q >> np.uint64(32)) ^ c[1] ^ k[0], q & low, (p >> np.uint64(32)) ^ c[3] ^ k[1], p & low]
    return [np.asarray(word, dtype=np.uint32) for word in c]


def numbers(position: torch.Tensor, count: int) -> Wide:
    """The numbers of a draw of `count` elements."""
    return np.uint64(int(position[2])) + np.arange(count, dtype=np.uint64)


def words(position: torch.Tensor, number: Wide, plane: int) -> Words:
    """word(n, plane) for an array of n."""
    seed, stream = (int(x) & 0xFFFFFFFFFFFFFFFF for x in position[:2])
    block, low = number // np.uint64(4), np.uint64(0xFFFFFFFF)
    counter = (block & low, block >> np.uint64(32), stream & 0xFFFFFFFF, (stream >> 32) << 16 | plane)
    of_block = np.broadcast_arrays(*philox(counter, (seed & 0xFFFFFFFF, seed >> 32)))
    return np.asarray(np.choose((number % np.uint64(4)).astype(np.intp), of_block), dtype=np.uint32)


def wide_words(position: torch.Tensor, number: Wide, plane: int) -> Wide:
    """word(n, plane) as the high half of 64 bits, word(n, plane + 1) as the low one."""
    high, low = (words(position, number, p).astype(np.uint64) for p in (plane, plane + 1))
    return high << np.uint64(32) | low


def random_words(like: torch.Tensor, position: torch.Tensor, plane: int) -> torch.Tensor:
    found = words(position, numbers(position, like.numel()), plane)
    return torch.from_numpy(found.view(np.int32).reshape(like.shape))


def random_integers(like: torch.Tensor, position: torch.Tensor, low: int, high: int) -> torch.Tensor:
    n, size = numbers(position, like.numel()), high - low
    bits, step, draw = (32, 1, words) if size <= 2**32 else (64, 2, wide_words)
    result, left = np.zeros(n.size, dtype=np.int64), np.arange(n.size)
    for plane in (0, *range(FIRST_ATTEMPT, SPAWN - step + 1, step)):
        products = [int(word) * size for word in draw(position, n[left], plane)]
        accepted = np.array([m % 2**bits >= (2**bits - size) % size for m in products], dtype=bool)
        result[left] = [low + (m >> bits) for m in products]
        left = left[~accepted]
        if not left.size:
            break
    return torch.from_numpy(result.reshape(like.shape))


def random_permutation(like: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    keys = wide_words(position, numbers(position, like.numel()), 0)
    return torch.from_numpy(np.argsort(keys, kind="stable").astype(np.int64))


OPS = {
    "random_words": random_words,
    "random_integers": random_integers,
    "random_permutation": random_permutation,
}
