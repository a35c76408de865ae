"""Cases of linear: with and without a bias, one row, one output, layouts."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

CASES = [
    Case("linear", "bias", lambda: (uniform(1, 9, 300), uniform(2, 21, 300), uniform(3, 21)), dtypes=EVERY),
    Case("linear", "no_bias", lambda: (uniform(1, 9, 30), uniform(2, 21, 30), None)),
    Case("linear", "row_1", lambda: (uniform(1, 1, 600), uniform(2, 40, 600), uniform(3, 40))),
    Case("linear", "output_1", lambda: (uniform(1, 33, 7), uniform(2, 1, 7), uniform(3, 1))),
    Case("linear", "output_1_long", lambda: (uniform(1, 33, 1300), uniform(2, 1, 1300), uniform(3, 1))),
    Case("linear", "empty_batch", lambda: (uniform(1, 0, 7), uniform(2, 5, 7), uniform(3, 5))),
    Case("linear", "no_features", lambda: (uniform(1, 4, 0), uniform(2, 5, 0), uniform(3, 5))),
    Case(
        "linear",
        "special",
        lambda: (uniform(1, 9, 5, special=True), uniform(2, 6, 5, special=True), uniform(3, 6, special=True)),
        dtypes=EVERY,
    ),
    Case("linear", "not_a_number", lambda: (torch.full((2, 3), float("inf")), uniform(2, 4, 3), uniform(3, 4))),
    Case(
        "linear",
        "subnormal",
        lambda: (
            uniform(1, 9, 70, scale=2.0**-70),
            uniform(2, 11, 70, scale=2.0**-70),
            uniform(3, 11, scale=2.0**-130),
        ),
        dtypes=DOUBLE,
    ),
    Case(
        "linear", "strided", lambda: (uniform(1, 8, 9).t(), uniform(2, 16, 8)[::2], uniform(3, 16)[::2]), dtypes=EVERY
    ),
    # A bias that starts the chain would absorb the small products one by one.
    Case(
        "linear",
        "bias_after_the_chain",
        lambda: (torch.full((1, 64), 2.0**-13), torch.full((2, 64), 2.0**-13), torch.ones(2)),
        dtypes=DOUBLE,
    ),
]
