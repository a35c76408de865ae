"""Cases of qr: square, tall and wide matrices, batches, sums across a chunk, layouts, zeros, special values."""

from __future__ import annotations

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

OP = "qr"

CASES = [
    *(
        Case(OP, f"{m}x{n}_{columns}", lambda m=m, n=n, columns=columns: (uniform(1, m, n), columns), dtypes=EVERY)
        for m, n, columns in ((7, 7, 7), (9, 4, 4), (9, 4, 9), (9, 4, 0), (4, 9, 4))
    ),
    Case(OP, "batch", lambda: (uniform(1, 2, 3, 6, 5), 5), dtypes=EVERY),
    Case(OP, "chunks", lambda: (uniform(1, 300, 9), 9)),
    Case(OP, "many_columns", lambda: (uniform(1, 5, 600), 5)),
    Case(OP, "transposed", lambda: (uniform(1, 5, 6).t(), 5)),
    Case(OP, "expanded", lambda: (uniform(1, 4, 4).expand(3, 4, 4), 4)),
    Case(OP, "zeros", lambda: (torch.zeros(4, 3), 3), dtypes=EVERY),
    Case(OP, "triangular", lambda: (uniform(1, 5, 5).triu(), 5), dtypes=EVERY),
    Case(OP, "of_rank_one", lambda: (uniform(1, 5, 1) * torch.ones(5), 5)),
    Case(OP, "special", lambda: (uniform(1, 40, 4, 4, special=True), 4), dtypes=EVERY),
    Case(OP, "subnormal", lambda: (uniform(1, 5, 5, scale=2.0**-130), 5), dtypes=EVERY),
    Case(OP, "huge", lambda: (uniform(1, 5, 5) * 2.0**120, 5)),
    Case(OP, "row", lambda: (uniform(1, 1, 3), 1), dtypes=EVERY),
    Case(OP, "empty", lambda: (uniform(1, 0, 0), 0), dtypes=EVERY),
    Case(OP, "no_columns", lambda: (uniform(1, 3, 0), 3)),
    Case(OP, "no_rows", lambda: (uniform(1, 2, 0, 3), 0)),
    Case(OP, "no_batch", lambda: (uniform(1, 0, 3, 3), 3)),
]
