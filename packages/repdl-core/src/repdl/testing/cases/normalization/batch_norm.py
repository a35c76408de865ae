"""Cases of batch_norm: with and without statistics and affine, sizes around blocks, layouts."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform


def _forward(
    x: torch.Tensor,
    training: bool = True,
    running: bool = True,
    weight: bool = True,
    bias: bool = True,
    momentum: float = 0.1,
) -> tuple[Any, ...]:
    c = x.shape[1]
    stats = (uniform(2, c), uniform(3, c).abs()) if running else (None, None)
    return x, *stats, uniform(4, c) if weight else None, uniform(5, c) if bias else None, training, momentum, 1e-5


def _backward(x: torch.Tensor, training: bool = True, weight: bool = True) -> tuple[Any, ...]:
    c = x.shape[1]
    return uniform(6, *x.shape), x, uniform(4, c) if weight else None, uniform(2, c), uniform(3, c).abs() * 4, training


SHAPES = [(2, 3), (70, 5), (3, 4, 7), (5, 3, 4, 6), (2, 2, 33, 40), (1, 1, 2), (4, 1, 3, 1, 2)]
TRAINING = {(70, 5): EVERY, (3, 4, 7): DOUBLE}
"""The dtypes of some shapes in training."""
LAYOUTS = {
    "permuted": (DOUBLE, lambda: uniform(1, 4, 6, 5, 3).permute(0, 3, 1, 2)),
    "strided": (EVERY, lambda: uniform(1, 8, 6, 9)[::2, 1::2, ::3]),
    "expanded": (DOUBLE, lambda: uniform(1, 1, 3, 5).expand(4, 3, 5)),
    "special": (EVERY, lambda: uniform(1, 6, 9, 8, special=True)),
    "constant": (DOUBLE, lambda: torch.full((3, 2, 50), 0.1)),
    "subnormal": (DOUBLE, lambda: uniform(1, 6, 3, 8, scale=2.0**-135)),
}

ROWS = {
    "1100x9": (DOUBLE, lambda: uniform(1, 1100, 9)),
    "6x600": ((), lambda: uniform(1, 6, 600)),
    "special": (EVERY, lambda: uniform(1, 60, 9, special=True)),
    "constant": (DOUBLE, lambda: torch.full((30, 5), 0.25)),
    "subnormal": (DOUBLE, lambda: uniform(1, 30, 5, scale=2.0**-135)),
    "transposed": (EVERY, lambda: uniform(1, 9, 70).t()),
    "empty": ((), lambda: uniform(1, 0, 3)),
    "no_channels": ((), lambda: uniform(1, 4, 0)),
}
"""Without dimensions behind the channels."""

CASES = [
    *(
        Case("batch_norm", f"rows_{n}_{'train' if t else 'eval'}", lambda make=make, t=t: _forward(make(), t), dtypes=d)
        for n, (d, make) in ROWS.items()
        for t in (True, False)
    ),
    *(
        Case(
            "batch_norm",
            f"rows_{'train' if t else 'eval'}{'_weight' * w}{'_bias' * b}",
            lambda t=t, w=w, b=b: _forward(uniform(1, 30, 5), t, not t, w, b),
        )
        for t in (True, False)
        for w in (True, False)
        for b in (True, False)
    ),
    Case("batch_norm", "rows_of_zeros", lambda: _forward(torch.zeros(30, 5), weight=True, bias=False)),
    *(
        Case(
            "batch_norm_backward",
            f"rows_{n}_{'train' if t else 'eval'}",
            lambda n=n, make=make, t=t: _backward(make(), t, n != "6x600"),
            dtypes=d,
        )
        for n, (d, make) in ROWS.items()
        for t in (True, False)
    ),
    *(
        Case(
            "batch_norm",
            "train_" + "x".join(map(str, s)),
            lambda s=s: _forward(uniform(1, *s)),
            dtypes=TRAINING.get(s, ()),
            mixed=s == (70, 5),
        )
        for s in SHAPES
    ),
    *(Case("batch_norm", "eval_" + "x".join(map(str, s)), lambda s=s: _forward(uniform(1, *s), False)) for s in SHAPES),
    *(
        Case(
            "batch_norm",
            f"{'train' if t else 'eval'}{'_running' * r}{'_weight' * w}{'_bias' * b}",
            lambda t=t, r=r, w=w, b=b: _forward(uniform(1, 4, 3, 5), t, r, w, b, 0.3),
            dtypes=() if not (r and w and b) else EVERY if t else DOUBLE,
            mixed=t and r and w and b,
        )
        for t in (True, False)
        for r in (True, False)
        for w in (True, False)
        for b in (True, False)
        if t or r
    ),
    *(Case("batch_norm", n, lambda make=make: _forward(make()), dtypes=d) for n, (d, make) in LAYOUTS.items()),
    *(
        Case("batch_norm", f"train_momentum_{n}", lambda m=m: _forward(uniform(1, 4, 3, 5), momentum=m))
        for n, m in (("0.9", 0.9), ("third", 1 / 3))
    ),
    Case("batch_norm", "eval_empty", lambda: _forward(uniform(1, 0, 3, 2), False)),
    Case("batch_norm", "train_empty", lambda: _forward(uniform(1, 0, 3, 2))),
    Case("batch_norm", "no_channels", lambda: _forward(uniform(1, 4, 0, 2))),
    *(
        Case(
            "batch_norm_backward",
            "train_" + "x".join(map(str, s)),
            lambda s=s: _backward(uniform(1, *s)),
            dtypes=TRAINING.get(s, ()),
            mixed=s == (70, 5),
        )
        for s in SHAPES
    ),
    *(
        Case("batch_norm_backward", "eval_" + "x".join(map(str, s)), lambda s=s: _backward(uniform(1, *s), False))
        for s in SHAPES
    ),
    Case("batch_norm_backward", "train_no_weight", lambda: _backward(uniform(1, 4, 3, 5), True, False)),
    Case("batch_norm_backward", "eval_no_weight", lambda: _backward(uniform(1, 4, 3, 5), False, False)),
    Case("batch_norm_backward", "eval_empty", lambda: _backward(uniform(1, 0, 3, 2), False)),
    Case("batch_norm_backward", "train_empty", lambda: _backward(uniform(1, 0, 3, 2))),
    Case("batch_norm_backward", "no_channels", lambda: _backward(uniform(1, 4, 0, 2))),
    Case(
        "batch_norm_backward",
        "grad_subnormal",
        lambda: (uniform(6, 4, 3, 5, scale=2.0**-130), *_backward(uniform(1, 4, 3, 5), False)[1:]),
    ),
    *(
        Case("batch_norm_backward", n, lambda make=make: _backward(make()), dtypes=d)
        for n, (d, make) in LAYOUTS.items()
    ),
]
