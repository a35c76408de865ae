"""Cases of lu_factor and solve: pivots that are needed, batches, wide and tall matrices, singular ones, special values."""

from __future__ import annotations

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

_TIES = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 4.0, 1.0], [1.0, 2.0, 5.0]])

CASES = [
    *(
        Case("lu_factor", f"{m}x{n}{'' if pivot else '_as_it_is'}", lambda m=m, n=n, pivot=pivot: (uniform(1, m, n), pivot), dtypes=EVERY)
        for m, n in ((7, 7), (4, 9), (9, 4))
        for pivot in (True, False)
    ),
    Case("lu_factor", "batch", lambda: (uniform(1, 2, 3, 5, 5), True), dtypes=EVERY),
    Case("lu_factor", "chunks", lambda: (uniform(1, 300, 280), True)),
    Case("lu_factor", "transposed", lambda: (uniform(1, 6, 5).t(), True)),
    Case("lu_factor", "expanded", lambda: (uniform(1, 4, 4).expand(3, 4, 4), True)),
    Case("lu_factor", "ties", lambda: (_TIES, True), dtypes=EVERY),
    Case("lu_factor", "zeros", lambda: (torch.zeros(3, 4), True), dtypes=EVERY),
    Case("lu_factor", "of_rank_one", lambda: (uniform(1, 5, 1) * torch.ones(5), True)),
    Case("lu_factor", "special", lambda: (uniform(1, 40, 4, 4, special=True), True), dtypes=EVERY),
    Case("lu_factor", "subnormal", lambda: (uniform(1, 5, 5, scale=2.0**-130), True), dtypes=EVERY),
    Case("lu_factor", "one", lambda: (uniform(1, 1, 1), True)),
    Case("lu_factor", "empty", lambda: (uniform(1, 0, 0), True), dtypes=EVERY),
    Case("lu_factor", "no_rows", lambda: (uniform(1, 2, 0, 3), True)),
    Case("lu_factor", "no_columns", lambda: (uniform(1, 3, 0), True)),
    Case("lu_factor", "no_batch", lambda: (uniform(1, 0, 3, 3), True)),
    Case("solve", "square", lambda: (uniform(1, 7, 7), uniform(2, 7, 3)), dtypes=EVERY),
    Case("solve", "batch", lambda: (uniform(1, 2, 3, 5, 5), uniform(2, 2, 3, 5, 17)), dtypes=EVERY),
    Case("solve", "chunks", lambda: (uniform(1, 290, 290), uniform(2, 290, 2))),
    Case("solve", "transposed", lambda: (uniform(1, 6, 6).t(), uniform(2, 4, 6).t())),
    Case("solve", "expanded", lambda: (uniform(1, 4, 4).expand(3, 4, 4), uniform(2, 3, 4, 2))),
    Case("solve", "singular", lambda: (torch.ones(2, 3, 3), uniform(2, 2, 3, 2)), dtypes=EVERY),
    Case("solve", "special", lambda: (uniform(1, 20, 4, 4, special=True), uniform(2, 20, 4, 3, special=True)), dtypes=EVERY),
    Case("solve", "subnormal", lambda: (uniform(1, 5, 5), uniform(2, 5, 6, scale=2.0**-130)), dtypes=EVERY),
    Case("solve", "empty", lambda: (uniform(1, 0, 0), uniform(2, 0, 3)), dtypes=EVERY),
    Case("solve", "no_columns", lambda: (uniform(1, 3, 3), uniform(2, 3, 0))),
    Case("solve", "no_batch", lambda: (uniform(1, 0, 3, 3), uniform(2, 0, 3, 2))),
]  # fmt: skip
