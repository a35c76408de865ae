"""Cases of norm: every order, dimensions, zeros, special values."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

INF = float("inf")
PLAIN = (2.0, 1.0, 0.0, INF, -INF)
"""Orders without powers."""


def _name(order: float) -> str:
    return f"order_{order}".replace("-", "minus_").replace(".", "_")


CASES = [
    *(
        Case("vector_norm", _name(p), lambda p=p: (uniform(2, 5, 60, 7), p, [1], False), dtypes=EVERY)
        for p in (*PLAIN, 3.0, 0.5, -1.0, 2.5, -2.0, 4.0)
    ),
    *(
        Case("vector_norm", f"special_{_name(p)}", lambda p=p: (uniform(7, 60, 4, special=True), p, [1], False), dtypes=DOUBLE)
        for p in (*PLAIN, 3.0, -1.5)
    ),
    *(
        Case("vector_norm", f"zeros_{_name(p)}", lambda p=p: (torch.tensor([[0.0, -0.0], [0.0, 2.0]]), p, [1], True))
        for p in (*PLAIN, 3.0, -1.5)
    ),
    Case("vector_norm", "all", lambda: (uniform(2, 9, 10, 11), 2.0, [0, 1, 2], False), dtypes=EVERY),
    Case("vector_norm", "dims", lambda: (uniform(2, 9, 10, 11), 1.0, [0, 2], True)),
    Case("vector_norm", "subnormal", lambda: (uniform(8, 4, 200, scale=2.0**-66), 2.0, [1], False), dtypes=DOUBLE),
    Case("vector_norm", "strided", lambda: (uniform(5, 20, 40)[::3, 1::3], 2.0, [1], False), dtypes=EVERY),
    Case("vector_norm", "empty", lambda: (uniform(6, 0, 3), 2.0, [1], False), dtypes=EVERY),
    Case("vector_norm", "no_terms", lambda: (uniform(6, 3, 0), 3.0, [1], False)),
]  # fmt: skip
