"""Cases of var: dimensions, corrections, means far from 0."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

CASES = [
    *(
        Case(
            "var", f"dims_{''.join(map(str, d))}", lambda d=d: (uniform(2, 9, 10, 11), list(d), 1.0, True), dtypes=EVERY
        )
        for d in ((0,), (1,), (0, 2), (0, 1, 2), ())
    ),
    *(Case("var", f"row_{n}", lambda n=n: (uniform(1, 2, n), [1], 1.0, False)) for n in (1, 2, 7, 1024, 3000)),
    *(
        Case("var", f"correction_{c}", lambda c=c: (uniform(1, 2, 9), [1], c, False))
        for c in (0.0, 0.3, 2.0, 9.0, 12.0)
    ),
    Case("var", "far_from_0", lambda: (uniform(1, 4, 200) + 4096.0, [1], 1.0, False), dtypes=DOUBLE),
    Case("var", "special", lambda: (uniform(7, 60, 5, special=True), [1], 1.0, False), dtypes=EVERY),
    Case("var", "subnormal", lambda: (uniform(8, 4, 200, scale=2.0**-66), [1], 1.0, False), dtypes=DOUBLE),
    Case("var", "strided", lambda: (uniform(5, 20, 40)[::3, 1::3], [1], 1.0, False), dtypes=EVERY),
    Case("var", "empty", lambda: (uniform(6, 0, 3), [1], 1.0, False), dtypes=EVERY),
    Case("var", "no_terms", lambda: (uniform(6, 3, 0), [1], 1.0, False)),
    Case("var", "of_a_number", lambda: (torch.tensor(2.0), [], 1.0, False)),
]
