"""Cases of words, integers and permutations: ends of the ranges, odd offsets, layouts of `like`."""

from __future__ import annotations

import torch

from repdl.testing.cases import Case

PLACES = {
    "start": (0, 0, 0),
    "odd": (1, 0, 1),
    "high_seed": (-2, 3, 5),
    "beyond_2_34": (2**63 - 1, 2**32 + 5, 2**34 + 7),
    "high_stream": (42, 2**48 - 1, 2**32 - 3),
    "end": (7, 2**47, 2**63 - 66),
}
"""Positions: the offset 2**34 is the first whose block has a second word."""


def position(name: str = "odd") -> torch.Tensor:
    """One of `PLACES`."""
    return torch.tensor(PLACES[name])


def strided_position() -> torch.Tensor:
    """Every other element of a tensor."""
    return torch.arange(6)[::2]


def like(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that says a shape and a dtype, in the memory of one element."""
    return torch.zeros((), dtype=dtype).expand(shape)


def _words(*shape: int) -> torch.Tensor:
    return like(*shape, dtype=torch.int32)


def _integers(*shape: int) -> torch.Tensor:
    return like(*shape, dtype=torch.int64)


LIMITS = {
    "bits": (0, 2),
    "one": (5, 6),
    "negative": (-100, -7),
    "often_rejected": (0, 3 * 2**30),
    "all_32": (0, 2**32),
    "over_32": (-1, 2**32),
    "often_rejected_64": (-(2**62), 2**63 - 1),
    "most": (-(2**63), 2**63 - 1),
}
"""Ranges of integers."""

CASES = [
    *(Case("random_words", name, lambda n=name: (_words(5, 13), position(n), 0)) for name in PLACES),
    *(Case("random_words", f"plane_{p}", lambda p=p: (_words(9), position(), p)) for p in (1, 2, 3, 65535)),
    Case("random_words", "long", lambda: (_words(2100), position(), 0)),
    Case("random_words", "one", lambda: (_words(), position("high_seed"), 0)),
    Case("random_words", "strided", lambda: (torch.zeros(6, 4, dtype=torch.int32).t(), strided_position(), 0)),
    Case("random_words", "empty", lambda: (_words(0, 3), position(), 0)),
    *(Case("random_integers", name, lambda n=name: (_integers(65), position("start"), *LIMITS[n])) for name in LIMITS),
    *(Case("random_integers", name, lambda n=name: (_integers(9, 7), position(n), 0, 10)) for name in PLACES),
    Case("random_integers", "empty", lambda: (_integers(0), position(), 0, 1)),
    Case("random_integers", "strided", lambda: (torch.zeros(6, 4, dtype=torch.int64).t(), strided_position(), 0, 9)),
    *(Case("random_permutation", str(n), lambda n=n: (_integers(n), position("start"))) for n in (1, 2, 7, 64, 1000)),
    *(Case("random_permutation", name, lambda n=name: (_integers(37), position(n))) for name in PLACES),
    Case("random_permutation", "strided", lambda: (torch.zeros(50, dtype=torch.int64)[::2], strided_position())),
    Case("random_permutation", "empty", lambda: (_integers(0), position())),
]
