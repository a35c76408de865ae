"""Cases of cholesky: batches, sums across a chunk, layouts, matrices that are not positive-definite, special values."""

from __future__ import annotations

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

OP = "cholesky"


def _definite(seed: int, *shape: int) -> torch.Tensor:
    """Symmetric, with a dominant diagonal. Sums of two floats and a quotient by a power of two: no order matters."""
    a = uniform(seed, *shape) / 2 ** shape[-1].bit_length()
    return a + a.mT + 4 * torch.eye(shape[-1])


CASES = [
    Case(OP, "square", lambda: (_definite(1, 7, 7),), dtypes=EVERY),
    Case(OP, "batch", lambda: (_definite(1, 2, 3, 5, 5),), dtypes=EVERY),
    Case(OP, "chunks", lambda: (_definite(1, 300, 300),)),
    Case(OP, "not_symmetric", lambda: (_definite(1, 6, 6) + uniform(2, 6, 6).triu(1),)),
    Case(OP, "transposed", lambda: ((_definite(1, 6, 6) + uniform(2, 6, 6).triu(1)).t(),)),
    Case(OP, "expanded", lambda: (_definite(1, 4, 4).expand(3, 4, 4),)),
    Case(OP, "indefinite", lambda: (uniform(1, 20, 4, 4),), dtypes=EVERY),
    Case(OP, "special", lambda: (uniform(1, 40, 4, 4, special=True),), dtypes=EVERY),
    Case(OP, "subnormal", lambda: (_definite(1, 5, 5) * 2.0**-130,), dtypes=EVERY),
    Case(OP, "singular", lambda: (torch.ones(3, 3),), dtypes=EVERY),
    Case(OP, "one", lambda: (_definite(1, 1, 1),)),
    Case(OP, "empty", lambda: (uniform(1, 0, 0),)),
    Case(OP, "no_batch", lambda: (uniform(1, 0, 3, 3),)),
]
