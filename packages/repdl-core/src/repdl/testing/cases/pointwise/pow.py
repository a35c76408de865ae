"""Cases of pow: exponents of every kind, special values, midpoints, layouts."""

from __future__ import annotations

import numpy as np
import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import SPECIAL, uniform

EXPONENTS = (
    0.0,
    -0.0,
    1.0,
    2.0,
    3.0,
    -1.0,
    -2.0,
    0.5,
    -0.5,
    1.5,
    2 / 3,
    0.1,
    10.0,
    -7.0,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
)
INF = float("inf")


def _specials() -> torch.Tensor:
    return torch.tensor(
        [*SPECIAL, -1.0, 2.0, -2.0, 0.5, -0.5, 1 + 2.0**-23, 1 - 2.0**-24, 3.0, 4096.0, 3e38, -3e38, 1e-40]
    )


def _midpoints() -> torch.Tensor:
    """Odd integers of 13 bits and their quotients by powers of two: the squares have 25 bits or 26."""
    return torch.from_numpy(np.arange(4097, 5800, 2, dtype=np.float32) * 2.0**-12)


def _pairs(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    base, exponent = (uniform(i, *shape) for i, shape in enumerate(shapes))
    return base.abs() * 8 + 0.1, exponent * 6


def _special_pairs() -> tuple[torch.Tensor, torch.Tensor]:
    return _specials(), torch.tensor([[e] for e in (*EXPONENTS, 3.5, -4.0)])


CASES = [
    Case("pow_tensor", "special", _special_pairs, dtypes=EVERY),
    Case("pow_tensor", "values", lambda: _pairs((40, 9), (40, 9)), dtypes=EVERY),
    Case("pow_tensor", "broadcast", lambda: _pairs((5, 1, 7), (3, 7))),
    Case("pow_tensor", "scalar_other", lambda: _pairs((65,), ()), dtypes=DOUBLE),
    Case("pow_tensor", "scalar_input", lambda: _pairs((), (65,))),
    Case(
        "pow_tensor", "permuted", lambda: tuple(t.permute(2, 0, 1) for t in _pairs((3, 4, 5), (3, 4, 5))), dtypes=DOUBLE
    ),
    Case(
        "pow_tensor",
        "strided",
        lambda: (_pairs((30, 9), (30, 9))[0][::2, 1::3], _pairs((30, 9), (30, 9))[1][1::2, ::3]),
        dtypes=EVERY,
    ),
    Case("pow_tensor", "subnormal", lambda: (uniform(3, 60).abs() + 1, uniform(4, 60) - 140), dtypes=DOUBLE),
    Case("pow_tensor", "empty", lambda: _pairs((0, 3), (3,)), dtypes=EVERY),
    *(
        Case("pow", f"special_{i}", lambda e=e: (_specials(), e), dtypes=EVERY if i == 0 else ())
        for i, e in enumerate(EXPONENTS)
    ),
    *(
        Case(
            "pow",
            f"values_{i}",
            lambda e=e: (uniform(1, 300, scale=8.0).abs(), e),
            dtypes=EVERY if i < 2 else (),
        )
        for i, e in enumerate((0.5, -0.5, 1.5, 2 / 3, 0.1, 10.0, -2.5))
    ),
    *(
        Case("pow", f"negative_{i}", lambda e=e: (uniform(2, 300, scale=8.0), e))
        for i, e in enumerate((3.0, -3.0, 4.0))
    ),
    *(Case("pow", f"midpoint_{i}", lambda e=e: (_midpoints(), e)) for i, e in enumerate((2.0, -2.0))),
    Case("pow", "midpoint_roots", lambda: (_midpoints().square(), 1.0)),
    Case("pow", "midpoint_1_5", lambda: (torch.arange(257.0, 330.0, 2.0).square(), 1.5)),
    Case("pow", "subnormal", lambda: (uniform(3, 300).abs() + 1, -140.0), dtypes=DOUBLE),
    Case("pow", "near_one", lambda: (1 + uniform(4, 300) * 2.0**-20, 1e7)),
    Case("pow", "permuted", lambda: (uniform(2, 3, 4, 5).permute(2, 0, 1), 3.0), dtypes=DOUBLE),
    Case("pow", "strided", lambda: (uniform(2, 30, 9).abs()[::2, 1::3], 0.7), dtypes=EVERY),
    Case("pow", "empty", lambda: (uniform(2, 0, 5), 0.7), dtypes=EVERY),
    Case("pow", "dim_0", lambda: (uniform(2).abs(), 0.7), dtypes=DOUBLE),
]
