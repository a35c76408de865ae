"""Cases of solve_triangular: both triangles, diagonals of ones, batches, sums across a chunk, layouts, special values."""

from __future__ import annotations

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

OP = "solve_triangular"


def _triangular(seed: int, *shape: int) -> torch.Tensor:
    """With a diagonal that is away from 0, and numbers in the other triangle, which nobody reads."""
    a = uniform(seed, *shape) / shape[-1]
    return a + torch.eye(shape[-1])


CASES = [
    *(
        Case(
            OP, f"{'upper' if upper else 'lower'}{'_ones' if unit else ''}",
            lambda upper=upper, unit=unit: (_triangular(1, 7, 7), uniform(2, 7, 3), upper, unit),
            dtypes=EVERY,
        )
        for upper in (False, True)
        for unit in (False, True)
    ),
    Case(OP, "batch", lambda: (_triangular(1, 2, 3, 5, 5), uniform(2, 2, 3, 5, 17), False, True), dtypes=EVERY),
    Case(OP, "chunks", lambda: (_triangular(1, 300, 300), uniform(2, 300, 2), True, False)),
    Case(OP, "transposed", lambda: (_triangular(1, 6, 6).t(), uniform(2, 4, 6).t(), False, False)),
    Case(OP, "expanded", lambda: (_triangular(1, 4, 4).expand(3, 4, 4), uniform(2, 3, 4, 2), True, False)),
    Case(
        OP, "special",
        lambda: (uniform(1, 20, 4, 4, special=True), uniform(2, 20, 4, 3, special=True), False, False),
        dtypes=EVERY,
    ),
    Case(
        OP, "subnormal", lambda: (_triangular(1, 5, 5), uniform(2, 5, 6, scale=2.0**-130), True, False), dtypes=EVERY
    ),
    Case(OP, "one", lambda: (_triangular(1, 1, 1), uniform(2, 1, 3), False, False)),
    Case(OP, "empty", lambda: (uniform(1, 0, 0), uniform(2, 0, 3), False, False)),
    Case(OP, "no_columns", lambda: (_triangular(1, 3, 3), uniform(2, 3, 0), True, False)),
    Case(OP, "no_batch", lambda: (uniform(1, 0, 3, 3), uniform(2, 0, 3, 2), False, True)),
]  # fmt: skip
