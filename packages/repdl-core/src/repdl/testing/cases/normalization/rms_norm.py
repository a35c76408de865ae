"""Cases of rms_norm: row lengths and row counts around lanes and blocks, layouts, special values."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.cases.normalization.layer_norm import COUNTS, DTYPES, ROWS, SHAPES, layouts, name
from repdl.testing.inputs import uniform


def _forward(x: torch.Tensor, dims: int = 1, weight: bool = True, eps: float = 1e-5) -> tuple[Any, ...]:
    shape = list(x.shape[x.dim() - dims :])
    return x, shape, uniform(4, *shape) if weight else None, eps


def _backward(x: torch.Tensor, dims: int = 1, weight: bool = True) -> tuple[Any, ...]:
    shape = list(x.shape[x.dim() - dims :])
    rows = [*x.shape[: x.dim() - dims], *[1] * dims]
    return uniform(6, *x.shape), x, shape, uniform(3, *rows).abs() * 4, uniform(4, *shape) if weight else None


CASES = [
    *(
        Case(
            "rms_norm",
            name(s),
            lambda s=s: _forward(uniform(1, *s)),
            dtypes=DTYPES.get(s, ()),
            mixed=s == (2, 65),
        )
        for s in [*ROWS, *SHAPES]
    ),
    Case("rms_norm", "no_weight", lambda: _forward(uniform(1, 5, 75), 1, False), dtypes=DOUBLE),
    *(Case("rms_norm", f"last_{d}", lambda d=d: _forward(uniform(1, 4, 3, 5, 7), d)) for d in (2, 3, 4)),
    *(Case("rms_norm", n, lambda make=make: _forward(make(), 2), dtypes=d) for n, (d, make) in layouts().items()),
    *(Case("rms_norm", f"eps_{e}", lambda e=e: _forward(uniform(1, 4, 9), eps=e)) for e in (0.0, 0.1, 1e-45, -1.0)),
    Case("rms_norm", "zeros_eps_0", lambda: _forward(torch.zeros(3, 5), eps=0.0)),
    Case("rms_norm", "subnormal_eps_0", lambda: _forward(uniform(1, 6, 9, scale=2.0**-135), eps=0.0)),
    Case("rms_norm", "strided_vectors", lambda: (uniform(1, 3, 20), [20], uniform(4, 60)[::3], 1e-5)),
    Case("rms_norm", "empty", lambda: _forward(uniform(1, 0, 5)), dtypes=EVERY),
    Case("rms_norm", "empty_rows", lambda: _forward(uniform(1, 3, 2, 0), 2)),
    *(
        Case(
            "rms_norm_backward",
            name(s),
            lambda s=s: _backward(uniform(1, *s)),
            dtypes=DTYPES.get(s, ()),
            mixed=s == (2, 65),
        )
        for s in [*ROWS, *COUNTS, *SHAPES]
    ),
    *(Case("rms_norm_backward", f"last_{d}", lambda d=d: _backward(uniform(1, 4, 3, 5, 7), d)) for d in (2, 3, 4)),
    *(
        Case("rms_norm_backward", n, lambda make=make: _backward(make()), dtypes=d)
        for n, (d, make) in layouts().items()
    ),
    Case("rms_norm_backward", "no_weight", lambda: _backward(uniform(1, 70, 75), 1, False), dtypes=DOUBLE),
    Case(
        "rms_norm_backward",
        "grad_subnormal",
        lambda: (uniform(6, 4, 9, scale=2.0**-130), *_backward(uniform(1, 4, 9))[1:]),
    ),
    Case(
        "rms_norm_backward",
        "grad_special",
        lambda: (uniform(6, 9, 12, special=True), *_backward(uniform(1, 9, 12))[1:]),
    ),
    Case("rms_norm_backward", "grad_permuted", lambda: (uniform(6, 9, 12).t(), *_backward(uniform(1, 12, 9))[1:])),
    Case("rms_norm_backward", "empty", lambda: _backward(uniform(1, 0, 5)), dtypes=EVERY),
    Case("rms_norm_backward", "empty_rows", lambda: _backward(uniform(1, 3, 2, 0), 2)),
]
