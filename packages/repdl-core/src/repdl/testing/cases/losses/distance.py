"""Cases of distances: orders, dimensions, special values, layouts."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.generated import special_pairs
from repdl.testing.inputs import uniform


def _vectors() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of two: each special value with each, beside 1 and beside itself."""
    x, y = torch.broadcast_tensors(*special_pairs())
    return torch.stack([x, torch.ones_like(x)], -1).flatten(0, 1), torch.stack([y, y], -1).flatten(0, 1)


CASES = [
    *(
        Case("normalize", f"p_{p}", lambda p=p: (uniform(1, 9, 70), p, 1, 1e-12), dtypes=DOUBLE if p != 3.0 else ())
        for p in (1.0, 2.0, 3.0, float("inf"))
    ),
    Case("normalize", "special", lambda: (_vectors()[0], 2.0, 1, 1e-12), dtypes=EVERY),
    Case("normalize", "first_dim", lambda: (uniform(1, 40, 3, 5), 2.0, 0, 1e-12)),
    Case("normalize", "transposed", lambda: (uniform(1, 7, 9).t(), 2.0, 1, 0.5)),
    Case("normalize", "empty", lambda: (uniform(1, 0, 5), 2.0, 1, 1e-12)),
    Case("cosine_similarity", "rows", lambda: (uniform(1, 9, 70), uniform(2, 9, 70), 1, 1e-8), dtypes=EVERY),
    Case("cosine_similarity", "special", lambda: (*_vectors(), 1, 1e-8), dtypes=EVERY),
    Case("cosine_similarity", "broadcast", lambda: (uniform(1, 5, 1, 7), uniform(2, 6, 1), 2, 1e-8)),
    Case(
        "cosine_similarity", "subnormal", lambda: (uniform(1, 9, 7, scale=2.0**-130), uniform(2, 9, 7), 1, 0.5),
    ),
    Case("cosine_similarity", "transposed", lambda: (uniform(1, 7, 9).t(), uniform(2, 9, 7), 0, 0.5)),
    Case("cosine_similarity", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5), 1, 1e-8)),
    *(
        Case(
            "pairwise_distance", f"p_{p}", lambda p=p: (uniform(1, 9, 70), uniform(2, 9, 70), p, 1e-6, False),
            dtypes=DOUBLE if p != 3.0 else (),
        )
        for p in (0.0, 1.0, 2.0, 3.0, float("inf"))
    ),
    Case("pairwise_distance", "special", lambda: (*_vectors(), 2.0, 1e-6, True), dtypes=EVERY),
    Case("pairwise_distance", "broadcast", lambda: (uniform(1, 5, 1, 7), uniform(2, 6, 7), 2.0, 0.0, True)),
    Case(
        "pairwise_distance", "subnormal",
        lambda: (uniform(1, 9, 7, scale=2.0**-130), uniform(2, 9, 7, scale=2.0**-130), 1.0, 0.0, False),
    ),
    Case("pairwise_distance", "transposed", lambda: (uniform(1, 7, 9).t(), uniform(2, 7), 2.0, 1e-6, False)),
    Case("pairwise_distance", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5), 2.0, 1e-6, False)),
]  # fmt: skip
