"""Draws of many numbers, longer than the pieces that kernels work in and than a thread's share."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases.sampling.random import like
from repdl.testing.inputs import uniform

Draw = tuple[str, tuple[Any, ...], bool]
"""An op, its arguments, and whether the reference is quick enough to be asked."""


def large_draws(n: int) -> list[Draw]:
    """Every op that draws, in every dtype of its kernels, from an odd offset in a high stream."""
    at = torch.tensor([-5, 2**40 + 3, 2**34 - 1001])
    whole, words = like(n, dtype=torch.int64), like(n, dtype=torch.int32)
    single, double = like(n), like(n, dtype=torch.float64)
    x = uniform(1, n)
    p = x.abs()
    return [
        ("random_words", (words, at, 3), True),
        ("random_permutation", (whole, at), True),
        ("random_integers", (whole, at, -3, 7), True),
        ("random_integers", (whole, at, 0, 3 * 2**30), True),
        ("random_integers", (whole, at, -(2**62), 2**63 - 1), False),
        *(("uniform", (like, at, -1.0, 3.0, 2.5), True) for like in (single, double)),
        *(("bernoulli_scalar", (like, at, 0.3), True) for like in (single, double)),
        *(("bernoulli", (tensor, at), True) for tensor in (p, p.double())),
        *(("dropout", (tensor, at, 0.4), True) for tensor in (x, x.double())),
        *(("poisson", (tensor * 64, at), True) for tensor in (p, p.double())),
        *(("normal", (like, at, 0.5, 2.0), False) for like in (single, double)),
        *(("exponential", (like, at, 2.0), False) for like in (single, double)),
        *(("truncated_normal", (like, at, 0.0, 1.0, -1.0, 3.0), False) for like in (single, double)),
    ]
