"""Cases of group_norm: groups from one to one a channel, sizes around lanes and blocks, layouts."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform


def _forward(
    x: torch.Tensor, groups: int, weight: bool = True, bias: bool = True, eps: float = 1e-5
) -> tuple[Any, ...]:
    c = x.shape[1]
    return x, groups, uniform(4, c) if weight else None, uniform(5, c) if bias else None, eps


def _backward(x: torch.Tensor, groups: int, weight: bool = True) -> tuple[Any, ...]:
    rows = x.shape[0], groups
    w = uniform(4, x.shape[1]) if weight else None
    return uniform(6, *x.shape), x, groups, uniform(2, *rows), uniform(3, *rows).abs() * 4, w


# Elements of a row, and of a channel over the batch, on both sides of 64 and 1024.
SHAPES = [
    (2, 6, 1), (2, 6, 2), (2, 6, 3), (2, 6, 6),  # (N, C) and the number of groups: no other dimension
    (3, 4, 2, 5), (3, 4, 4, 5), (3, 4, 1, 5), (63, 4, 2, 1), (65, 2, 2, 2),
    (2, 2, 1, 31), (2, 2, 1, 32), (2, 2, 1, 33), (2, 4, 2, 512), (2, 2, 1, 513), (2, 2, 2, 1025), (1, 3, 3, 2100),
    (2, 4, 2, 3, 7), (2, 6, 3, 5, 5, 3), (2, 66, 2, 17),
]  # fmt: skip
LAYOUTS = {
    "permuted": (DOUBLE, lambda: uniform(1, 4, 6, 5, 4).permute(0, 3, 1, 2)),
    "strided": (EVERY, lambda: uniform(1, 8, 8, 9)[::2, ::2, ::3]),
    "expanded": (DOUBLE, lambda: uniform(1, 1, 4, 5).expand(4, 4, 5)),
    "special": (EVERY, lambda: uniform(1, 6, 8, 8, special=True)),
    "constant": (DOUBLE, lambda: torch.full((3, 2, 50), 0.1)),
    "subnormal": (DOUBLE, lambda: uniform(1, 6, 4, 8, scale=2.0**-135)),
    "large": ((), lambda: uniform(1, 4, 4, 9, scale=2.0**126)),
    "tiny_squares": ((), lambda: uniform(1, 4, 4, 9, scale=2.0**-70)),
}


def _named(shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], int]:
    """(N, C, groups, ...) as a name, (N, C, ...) and the groups."""
    n, c, groups, *rest = shape
    return f"{'x'.join(map(str, (n, c, *rest)))}_groups_{groups}", (n, c, *rest), groups


def _subnormal_bias() -> tuple[Any, ...]:
    x, groups, weight, _, eps = _forward(torch.full((3, 4, 5), 0.5), 2)
    return x, groups, weight, uniform(5, 4, scale=2.0**-130), eps


NAMED = [_named(shape) for shape in SHAPES]
DTYPES = {(2, 4, 3, 7): EVERY, **dict.fromkeys(((63, 4, 1), (2, 4, 512), (2, 2, 1025)), DOUBLE)}
"""Those of some shapes with two groups."""
CASES = [
    *(
        Case(
            "group_norm",
            n,
            lambda s=s, g=g: _forward(uniform(1, *s), g),
            dtypes=DTYPES.get(s, ()) if g == 2 else (),
        )
        for n, s, g in NAMED
    ),
    *(
        Case(
            "group_norm",
            f"plain{'_weight' * w}{'_bias' * b}",
            lambda w=w, b=b: _forward(uniform(1, 4, 6, 37), 2, w, b),
            dtypes=EVERY if w == b else (),
            mixed=w and b,
        )
        for w in (True, False)
        for b in (True, False)
    ),
    *(Case("group_norm", n, lambda make=make: _forward(make(), 2), dtypes=d) for n, (d, make) in LAYOUTS.items()),
    *(
        Case("group_norm", f"eps_{e}", lambda e=e: _forward(uniform(1, 4, 2, 9), 1, eps=e))
        for e in (0.0, 0.1, 1e-45, -1.0)
    ),
    Case("group_norm", "subnormal_eps_0", lambda: _forward(uniform(1, 6, 4, 9, scale=2.0**-135), 2, eps=0.0)),
    Case("group_norm", "subnormal_bias", _subnormal_bias),
    Case(
        "group_norm",
        "strided_vectors",
        lambda: (uniform(1, 3, 6, 5), 3, uniform(4, 18)[::3], uniform(5, 1).expand(6), 1e-5),
    ),
    Case("group_norm", "empty", lambda: _forward(uniform(1, 0, 6, 2), 3), dtypes=EVERY),
    Case("group_norm", "empty_rows", lambda: _forward(uniform(1, 3, 6, 0), 3)),
    Case("group_norm", "no_channels", lambda: _forward(uniform(1, 4, 0, 2), 2)),
    *(
        Case(
            "group_norm_backward",
            n,
            lambda s=s, g=g: _backward(uniform(1, *s), g),
            dtypes=DTYPES.get(s, ()) if g == 2 else (),
        )
        for n, s, g in NAMED
    ),
    *(
        Case("group_norm_backward", n, lambda make=make: _backward(make(), 2), dtypes=d)
        for n, (d, make) in LAYOUTS.items()
    ),
    Case("group_norm_backward", "no_weight", lambda: _backward(uniform(1, 4, 6, 37), 2, False), dtypes=DOUBLE),
    Case(
        "group_norm_backward",
        "grad_subnormal",
        lambda: (uniform(6, 4, 6, 5, scale=2.0**-130), *_backward(uniform(1, 4, 6, 5), 2)[1:]),
    ),
    Case(
        "group_norm_backward",
        "grad_special",
        lambda: (uniform(6, 4, 6, 15, special=True), *_backward(uniform(1, 4, 6, 15), 2)[1:]),
    ),
    Case("group_norm_backward", "empty", lambda: _backward(uniform(1, 0, 6, 2), 3), dtypes=EVERY),
    Case("group_norm_backward", "empty_rows", lambda: _backward(uniform(1, 3, 6, 0), 3)),
    Case("group_norm_backward", "no_channels", lambda: _backward(uniform(1, 4, 0, 2), 2)),
]
