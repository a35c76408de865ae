"""Cases of all_reduce: 1 to 9 ranks, what another order of the ranks rounds otherwise, zeros, NaN."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform


def numbers(seed: int, *shape: int) -> torch.Tensor:
    """Numbers of many magnitudes with all of their bits: sums of those of `uniform` are exact for the most part."""
    return uniform(seed, *shape) * uniform(seed + 100, *shape)


_OPS = "sum", "avg", "product", "max", "min"

CASES = [
    *(
        Case(
            "all_reduce",
            f"{op}_of_{n}",
            lambda op=op, n=n: (numbers(n, n, 40), op),
            dtypes=EVERY if n in (1, 3, 8) else (),
        )
        for op in _OPS
        for n in range(1, 10)
    ),
    *(
        Case(
            "all_reduce", f"{op}_special_of_{n}", lambda op=op, n=n: (uniform(n, n, 60, special=True), op), dtypes=EVERY
        )
        for op in _OPS
        for n in (1, 2, 3, 7)
    ),
    Case("all_reduce", "large", lambda: (numbers(3, 6, 3000), "sum"), dtypes=DOUBLE),
    Case("all_reduce", "matrices", lambda: (numbers(4, 5, 6, 7), "avg"), dtypes=DOUBLE),
    Case("all_reduce", "scalars", lambda: (numbers(5, 4), "avg"), dtypes=DOUBLE),
    Case("all_reduce", "transposed", lambda: (numbers(6, 30, 5).t(), "sum"), dtypes=EVERY),
    Case("all_reduce", "strided", lambda: (numbers(7, 20, 40)[::3, 1::3], "product")),
    Case("all_reduce", "empty", lambda: (uniform(8, 3, 0), "avg"), dtypes=EVERY),
    Case("all_reduce", "subnormal", lambda: (uniform(9, 5, 40, scale=2.0**-130), "avg")),
    # Pairs cancel; a chain, or the tree over ranks in another order, loses what is left of them.
    Case(
        "all_reduce",
        "by_the_tree",
        lambda: (torch.tensor([2.0**30, 1.0, -(2.0**30), 1.0, 2.0**-20]).unsqueeze(1), "sum"),
    ),
    # In a 16-bit float each addition would round 2048 + 1 to 2048.
    Case("all_reduce", "widened", lambda: (torch.tensor([2048.0] + [1.0] * 7).unsqueeze(1), "sum"), dtypes=EVERY),
    Case("all_reduce", "zeros", lambda: (torch.tensor([[0.0, -0.0, -0.0], [-0.0, 0.0, -0.0]]), "max")),
    Case("all_reduce", "zeros_of_min", lambda: (torch.tensor([[0.0, -0.0, -0.0], [-0.0, 0.0, -0.0]]), "min")),
    Case("all_reduce", "negative_zero", lambda: (torch.full((5, 2), -0.0), "sum")),
]
