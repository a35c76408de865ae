"""Cases of max_pool2d: windows that overlap, leave gaps or are cut, ties, NaN, layouts."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import index, uniform

# name: input size, kernel, stride, padding, dilation, ceil_mode
WINDOWS = {
    "halves": ((8, 6), (2, 2), (2, 2), (0, 0), (1, 1), False),
    "overlap": ((9, 11), (3, 3), (2, 2), (1, 1), (1, 1), False),
    "gaps": ((9, 11), (1, 2), (3, 4), (0, 1), (1, 1), False),
    "dilated": ((12, 9), (3, 2), (1, 2), (1, 1), (2, 3), False),
    "ceil": ((7, 8), (2, 3), (2, 2), (0, 1), (1, 1), True),
    "ceil_drops_window": ((5, 5), (2, 2), (3, 3), (1, 1), (1, 1), True),
    "rows_only": ((5, 40), (1, 5), (1, 2), (0, 2), (1, 1), False),
    "one_window": ((3, 4), (3, 4), (1, 1), (0, 0), (1, 1), False),
    "wide": ((4, 70), (3, 3), (1, 1), (1, 1), (1, 1), False),
}


def _pool(name: str, n: int = 2, c: int = 3, **kind: object) -> tuple[Any, ...]:
    size, *options = WINDOWS[name]
    return uniform(1, n, c, *size, **kind), *(list(o) if isinstance(o, tuple) else o for o in options)  # type: ignore[arg-type]


def _ties() -> tuple[Any, ...]:
    x = (uniform(2, 2, 3, 8, 6) * 2).round() * 0.0 + torch.where(index(3, 2, 2, 3, 8, 6) == 0, -0.0, 0.0)
    return x, [3, 2], [1, 1], [1, 1], [1, 1], False


CASES = [
    *(
        Case(
            "max_pool2d",
            name,
            lambda name=name: _pool(name),
            dtypes={"overlap": EVERY, "dilated": DOUBLE, "ceil": DOUBLE}.get(name, ()),
        )
        for name in WINDOWS
    ),
    *(
        Case(
            "max_pool2d",
            f"special_{name}",
            lambda name=name: _pool(name, special=True),
            dtypes=EVERY if name == "overlap" else (),
        )
        for name in ("overlap", "dilated")
    ),
    Case("max_pool2d", "ties", _ties),
    Case(
        "max_pool2d",
        "all_minus_inf",
        lambda: (torch.full((1, 1, 4, 4), float("-inf")), [3, 3], [1, 1], [1, 1], [1, 1], False),
        dtypes=DOUBLE,
    ),
    Case(
        "max_pool2d",
        "all_minus_inf_dilated",
        lambda: (torch.full((1, 1, 6, 5), float("-inf")), [3, 3], [1, 1], [1, 1], [2, 2], False),
    ),
    Case("max_pool2d", "no_batch", lambda: _pool("halves", n=0)),
    Case(
        "max_pool2d",
        "permuted",
        lambda: (uniform(1, 6, 2, 8, 3).permute(1, 3, 2, 0), [2, 2], [2, 2], [0, 0], [1, 1], False),
        dtypes=DOUBLE,
    ),
    Case(
        "max_pool2d",
        "expanded",
        lambda: (uniform(1, 1, 1, 6, 6).expand(2, 3, 6, 6), [2, 2], [2, 2], [0, 0], [1, 1], False),
        dtypes=DOUBLE,
    ),
    Case("max_pool2d_backward", "distinct", lambda: (uniform(1, 2, 3, 4, 3), index(2, 48, 2, 3, 4, 3), [8, 6])),
    Case(
        "max_pool2d_backward",
        "collide",
        lambda: (uniform(1, 2, 3, 20, 30, scale=2.0**10), index(2, 6, 2, 3, 20, 30), [2, 3]),
        dtypes=EVERY,
    ),
    Case(
        "max_pool2d_backward",
        "special",
        lambda: (uniform(1, 2, 3, 9, 9, special=True), index(2, 20, 2, 3, 9, 9), [4, 5]),
        dtypes=EVERY,
    ),
    Case(
        "max_pool2d_backward",
        "subnormal",
        lambda: (uniform(1, 2, 3, 9, 9, scale=2.0**-128), index(2, 20, 2, 3, 9, 9), [4, 5]),
        dtypes=DOUBLE,
    ),
    Case(
        "max_pool2d_backward",
        "strided",
        lambda: (uniform(1, 4, 3, 4, 6)[::2, :, :, ::2], index(2, 48, 2, 3, 3, 4).transpose(2, 3), [8, 6]),
        dtypes=EVERY,
    ),
    Case("max_pool2d_backward", "no_batch", lambda: (uniform(1, 0, 3, 4, 3), index(2, 48, 0, 3, 4, 3), [8, 6])),
]
