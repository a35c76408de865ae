"""Cases of bilinear: sizes across a chunk, dimensions, special values, layouts."""

from __future__ import annotations

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

CASES = [
    Case(
        "bilinear", "rows", lambda: (uniform(1, 5, 7), uniform(2, 5, 6), uniform(3, 4, 7, 6), uniform(4, 4)),
        dtypes=EVERY,
    ),
    Case("bilinear", "chunks", lambda: (uniform(1, 3, 257), uniform(2, 3, 300), uniform(3, 2, 257, 300), None)),
    Case(
        "bilinear", "special",
        lambda: (uniform(1, 20, 3, special=True), uniform(2, 20, 2), uniform(3, 4, 3, 2, special=True), uniform(4, 4)),
        dtypes=EVERY,
    ),
    Case(
        "bilinear", "transposed",
        lambda: (uniform(1, 7, 5).t(), uniform(2, 6, 5).t(), uniform(3, 6, 7, 4).permute(2, 1, 0), None),
    ),
    Case(
        "bilinear", "subnormal",
        lambda: (
            uniform(1, 5, 7, scale=2.0**-130), uniform(2, 5, 6), uniform(3, 4, 7, 6), uniform(4, 4, scale=2.0**-130),
        ),
    ),
    Case("bilinear", "dims", lambda: (uniform(1, 2, 3, 4), uniform(2, 2, 3, 5), uniform(3, 6, 4, 5), uniform(4, 6))),
    Case("bilinear", "dim_1", lambda: (uniform(1, 4), uniform(2, 5), uniform(3, 6, 4, 5), uniform(4, 6))),
    Case("bilinear", "empty", lambda: (uniform(1, 0, 4), uniform(2, 0, 5), uniform(3, 6, 4, 5), uniform(4, 6))),
    Case("bilinear", "no_terms", lambda: (uniform(1, 3, 0), uniform(2, 3, 5), uniform(3, 6, 0, 5), uniform(4, 6))),
]  # fmt: skip
