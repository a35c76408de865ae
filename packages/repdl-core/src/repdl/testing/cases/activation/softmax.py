"""Cases of softmax and log_softmax: row lengths, every dimension, special values, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

NAN, INF = float("nan"), float("inf")
ROWS = [
    [1.0, 2.0, 3.0],
    [-0.0, 0.0, 0.0],
    [NAN, 1.0, 2.0],
    [1.0, INF, 2.0],
    [-INF, -INF, -INF],
    [-INF, 1.0, 2.0],
    [0.0, -104.0, -103.0],
    [3e38, -3e38, 0.0],
    [88.7, 88.8, -88.8],
    [1e-40, -1e-40, 0.0],
]


def _layouts(make: Callable[..., tuple[torch.Tensor, ...]]) -> list[tuple[str, Callable[[], tuple[Any, ...]]]]:
    """(name, tensors, dim): `make(*shape)` gives the tensors of one call."""
    return [
        *((f"row_{n}", lambda n=n: (*make(3, n), 1)) for n in (1, 2, 10, 15, 16, 17, 63, 64, 65, 130, 1025)),
        *((f"dim_{d}", lambda d=d: (*make(3, 4, 5), d)) for d in range(3)),
        ("columns", lambda: (*make(2, 5, 700), 1)),
        ("few_columns", lambda: (*make(3, 1100, 2), 1)),
        ("columns_of_one", lambda: (*make(2, 1, 33), 1)),
        ("no_columns", lambda: (*make(2, 0, 3), 1)),
        ("channels_last", lambda: (*(t.permute(0, 3, 1, 2) for t in make(2, 4, 5, 21)), 1)),
        ("rows_70x9", lambda: (*make(70, 9), 1)),
        ("dim_0d", lambda: (*make(), 0)),
        ("empty_row", lambda: (*make(3, 0), 1)),
        ("no_rows", lambda: (*make(0, 3), 1)),
        ("transposed", lambda: (*(t.t() for t in make(7, 9)), 1)),
        ("strided", lambda: (*(t[::2, 1::3] for t in make(9, 30)), 1)),
        ("expanded", lambda: (*(t.expand(4, 9) for t in make(1, 9)), 0)),
    ]


DTYPES = {
    **dict.fromkeys(("row_1025", "transposed", "strided", "columns"), EVERY),
    **dict.fromkeys(("row_65", "dim_0", "expanded", "few_columns", "rows_70x9"), DOUBLE),
}
"""Those of some layouts."""


def _one(*shape: int) -> tuple[torch.Tensor, ...]:
    return (uniform(1, *shape, scale=8.0),)


def _two(*shape: int) -> tuple[torch.Tensor, ...]:
    return uniform(1, *shape), uniform(2, *shape)


CASES = [
    *(
        Case(op, name, make, dtypes=DTYPES.get(name, ()))
        for op in ("softmax", "log_softmax")
        for name, make in _layouts(_one)
    ),
    *(Case(op, "special", lambda: (torch.tensor(ROWS), 1), dtypes=EVERY) for op in ("softmax", "log_softmax")),
    *(
        Case(op, "special_columns", lambda: (torch.tensor(ROWS).t(), 0), dtypes=EVERY)
        for op in ("softmax", "log_softmax")
    ),
    *(Case(op, "below_zero", lambda: (uniform(1, 9, 21) - 50.0, 1)) for op in ("softmax", "log_softmax")),
    *(
        Case(f"{op}_backward", name, make, dtypes=DTYPES.get(name, ()))
        for op in ("softmax", "log_softmax")
        for name, make in _layouts(_two)
    ),
    *(
        Case(
            f"{op}_backward",
            "subnormal",
            lambda: (uniform(1, 5, 7, scale=2.0**-130), uniform(2, 5, 7), 1),
            dtypes=DOUBLE,
        )
        for op in ("softmax", "log_softmax")
    ),
    *(
        Case(
            f"{op}_backward", "special", lambda: (uniform(1, 10, 3, special=True), torch.tensor(ROWS), 1), dtypes=EVERY
        )
        for op in ("softmax", "log_softmax")
    ),
    *(
        Case(
            "logsumexp",
            f"dims_{''.join(map(str, d))}",
            lambda d=d: (uniform(2, 9, 10, 11, scale=8.0), list(d), True),
            dtypes=EVERY,
        )
        for d in ((0,), (2,), (0, 2), (0, 1, 2))
    ),
    Case("logsumexp", "special", lambda: (uniform(7, 60, 4, special=True), [1], False), dtypes=EVERY),
    Case(
        "logsumexp",
        "infinite",
        lambda: (
            torch.tensor([[float("inf"), 1.0], [-float("inf"), -float("inf")], [float("inf"), -float("inf")]]),
            [1],
            False,
        ),
    ),
    Case("logsumexp", "large", lambda: (uniform(7, 5, 40, scale=256.0), [1], False)),
    Case("logsumexp", "strided", lambda: (uniform(5, 20, 40)[::3, 1::3], [1], False), dtypes=EVERY),
    Case("logsumexp", "empty", lambda: (uniform(6, 0, 3), [1], False), dtypes=EVERY),
    Case("logsumexp", "no_terms", lambda: (uniform(6, 3, 0), [1], False)),
    Case("logsumexp", "of_a_number", lambda: (torch.tensor(2.0), [], False)),
    Case("logsumexp", "subnormal", lambda: (uniform(1, 9, 1, scale=2.0**-130), [1], False)),
]
