"""Cases of local_response_norm: windows of every kind, special values, layouts."""

from __future__ import annotations

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

CASES = [
    *(
        Case("local_response_norm", f"size_{n}", lambda n=n: (uniform(1, 2, 7, 3, 4, scale=8.0), n, 0.5, 0.75, 2.0))
        for n in (1, 2, 3, 5, 9, 20)
    ),
    Case(
        "local_response_norm", "special", lambda: (uniform(1, 4, 6, 9, special=True), 3, 0.1, 0.75, 1.0), dtypes=EVERY
    ),
    Case("local_response_norm", "values", lambda: (uniform(1, 2, 9, 5, scale=8.0), 5, 1e-4, 0.5, 1.0), dtypes=EVERY),
    Case("local_response_norm", "permuted", lambda: (uniform(1, 5, 6, 2).permute(2, 1, 0), 3, 0.5, 0.75, 1.0)),
    Case("local_response_norm", "dims", lambda: (uniform(1, 2, 3, 2, 2, 2), 2, 0.5, 1.0, 0.0)),
    Case("local_response_norm", "empty", lambda: (uniform(1, 0, 3, 2), 2, 0.5, 0.75, 1.0)),
]
