"""Cases of layer_norm: row lengths and row counts around lanes and blocks, layouts, special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

ROWS = [(3, 1), (3, 2), (2, 63), (2, 64), (2, 65), (3, 130), (2, 1023), (2, 1024), (2, 1025), (1, 3100)]
COUNTS = [(1, 5), (63, 3), (64, 3), (65, 3), (130, 2), (1023, 2), (1025, 2), (3100, 1), (70, 17)]
SHAPES = [(5,), (2, 3, 4, 5)]
DTYPES: dict[tuple[int, ...], tuple[torch.dtype, ...]] = {
    (2, 65): EVERY,
    (2, 1025): DOUBLE,
    (1025, 2): DOUBLE,
    (70, 17): DOUBLE,
}
"""Those of some shapes."""


def name(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def layouts() -> dict[str, tuple[tuple[torch.dtype, ...], Callable[[], torch.Tensor]]]:
    """Input tensors whose memory is not that of a contiguous one, or whose values are particular."""
    return {
        "permuted": (DOUBLE, lambda: uniform(1, 4, 6, 5).permute(2, 0, 1)),
        "strided": (EVERY, lambda: uniform(1, 8, 6, 90)[::2, 1::2, ::3]),
        "expanded": (DOUBLE, lambda: uniform(1, 1, 3, 5).expand(4, 3, 5)),
        "special": (EVERY, lambda: uniform(1, 9, 8, 6, special=True)),
        "constant": (DOUBLE, lambda: torch.full((3, 2, 50), 0.1)),
        "subnormal": (DOUBLE, lambda: uniform(1, 6, 3, 8, scale=2.0**-135)),
        "large": ((), lambda: uniform(1, 4, 3, 9, scale=2.0**126)),
        "tiny_squares": ((), lambda: uniform(1, 4, 3, 9, scale=2.0**-70)),
    }


def _forward(
    x: torch.Tensor, dims: int = 1, weight: bool = True, bias: bool = True, eps: float = 1e-5
) -> tuple[Any, ...]:
    shape = list(x.shape[x.dim() - dims :])
    return x, shape, uniform(4, *shape) if weight else None, uniform(5, *shape) if bias else None, eps


def _backward(x: torch.Tensor, dims: int = 1, weight: bool = True) -> tuple[Any, ...]:
    shape = list(x.shape[x.dim() - dims :])
    rows = [*x.shape[: x.dim() - dims], *[1] * dims]
    w = uniform(4, *shape) if weight else None
    return uniform(6, *x.shape), x, shape, uniform(2, *rows), uniform(3, *rows).abs() * 4, w


def _subnormal_bias() -> tuple[Any, ...]:
    x, shape, weight, _, eps = _forward(torch.full((3, 4), 0.5))
    return x, shape, weight, uniform(5, 4, scale=2.0**-130), eps


def _strided_vectors() -> tuple[Any, ...]:
    return uniform(1, 3, 20), [20], uniform(4, 60)[::3], uniform(5, 1).expand(20), 1e-5


CASES = [
    *(
        Case(
            "layer_norm",
            name(s),
            lambda s=s: _forward(uniform(1, *s)),
            dtypes=DTYPES.get(s, ()),
            mixed=s == (2, 65),
        )
        for s in [*ROWS, *SHAPES]
    ),
    *(
        Case(
            "layer_norm",
            f"plain{'_weight' * w}{'_bias' * b}",
            lambda w=w, b=b: _forward(uniform(1, 5, 75), 1, w, b),
            dtypes=EVERY if w == b else (),
            mixed=w and b,
        )
        for w in (True, False)
        for b in (True, False)
    ),
    *(Case("layer_norm", f"last_{d}", lambda d=d: _forward(uniform(1, 4, 3, 5, 7), d)) for d in (2, 3, 4)),
    *(Case("layer_norm", n, lambda make=make: _forward(make(), 2), dtypes=d) for n, (d, make) in layouts().items()),
    *(Case("layer_norm", f"eps_{e}", lambda e=e: _forward(uniform(1, 4, 9), eps=e)) for e in (0.0, 0.1, 1e-45, -1.0)),
    Case("layer_norm", "subnormal_eps_0", lambda: _forward(uniform(1, 6, 9, scale=2.0**-135), eps=0.0)),
    Case("layer_norm", "subnormal_bias", _subnormal_bias),
    Case("layer_norm", "strided_vectors", _strided_vectors),
    Case("layer_norm", "empty", lambda: _forward(uniform(1, 0, 5)), dtypes=EVERY),
    Case("layer_norm", "empty_rows", lambda: _forward(uniform(1, 3, 2, 0), 2)),
    *(
        Case(
            "layer_norm_backward",
            name(s),
            lambda s=s: _backward(uniform(1, *s)),
            dtypes=DTYPES.get(s, ()),
            mixed=s == (2, 65),
        )
        for s in [*ROWS, *COUNTS, *SHAPES]
    ),
    *(Case("layer_norm_backward", f"last_{d}", lambda d=d: _backward(uniform(1, 4, 3, 5, 7), d)) for d in (2, 3, 4)),
    *(
        Case("layer_norm_backward", n, lambda make=make: _backward(make()), dtypes=d)
        for n, (d, make) in layouts().items()
    ),
    Case("layer_norm_backward", "no_weight", lambda: _backward(uniform(1, 70, 75), 1, False), dtypes=DOUBLE),
    Case(
        "layer_norm_backward",
        "grad_subnormal",
        lambda: (uniform(6, 4, 9, scale=2.0**-130), *_backward(uniform(1, 4, 9))[1:]),
    ),
    Case(
        "layer_norm_backward",
        "grad_special",
        lambda: (uniform(6, 9, 12, special=True), *_backward(uniform(1, 9, 12))[1:]),
    ),
    Case("layer_norm_backward", "grad_permuted", lambda: (uniform(6, 9, 12).t(), *_backward(uniform(1, 12, 9))[1:])),
    Case("layer_norm_backward", "empty", lambda: _backward(uniform(1, 0, 5)), dtypes=EVERY),
    Case("layer_norm_backward", "empty_rows", lambda: _backward(uniform(1, 3, 2, 0), 2)),
]
