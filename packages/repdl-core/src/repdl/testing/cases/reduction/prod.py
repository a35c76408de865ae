"""Cases of prod: lengths around powers of two, layouts, what another order would over- or underflow."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import floats, uniform

CASES = [
    *(
        Case("prod", f"row_{n}", lambda n=n: (uniform(1, 3, n) + 1.25,), dtypes=EVERY if n in (0, 1, 7) else ())
        for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 33, 100)
    ),
    Case("prod", "special", lambda: (uniform(7, 60, 5, special=True),), dtypes=EVERY),
    Case("prod", "values", lambda: (uniform(7, 4, 5, 6),), dtypes=DOUBLE),
    Case("prod", "subnormal", lambda: (uniform(8, 40, 2, scale=2.0**-70),), dtypes=DOUBLE),
    Case("prod", "subnormal_argument", lambda: (uniform(8, 3, 1, scale=2.0**-130),)),
    Case("prod", "transposed", lambda: (uniform(4, 9, 40).t(),), dtypes=EVERY),
    Case("prod", "strided", lambda: (uniform(5, 20, 40)[::3, 1::3],)),
    Case("prod", "empty", lambda: (uniform(6, 0, 3),), dtypes=EVERY),
    # From left to right it would overflow before the small ones come.
    Case("prod", "by_the_tree", lambda: (torch.tensor([2.0**100, 2.0**-100, 2.0**100, 2.0**-90, 3.0]),)),
    Case("prod", "not_a_number", lambda: (torch.cat([torch.tensor([[torch.inf, 0.0]]), floats(0xFFC00001, 0x3F800000)[None]]),), dtypes=DOUBLE),
    Case("prod", "not_a_number_alone", lambda: (floats(0xFFC00001, 0x7FC00002)[:, None],), dtypes=DOUBLE),
    Case("prod", "negative_zero", lambda: (torch.tensor([[-0.0, 1.0, 1.0], [-0.0, -1.0, 1.0]]),)),
]  # fmt: skip
