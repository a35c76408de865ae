"""Cases of nll_loss: reductions, weights, ignored targets, extra dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import index, uniform

REDUCTIONS = ("none", "mean", "sum")
IGNORE = -100


def targets(classes: int, *shape: int, ignored: bool = False) -> torch.Tensor:
    t = index(7, classes, *shape)
    if ignored:
        t.view(-1)[::3] = IGNORE
    return t


def loss(
    shape: Sequence[int], reduction: str = "mean", weighted: bool = False, ignored: bool = False, **kind: object
) -> tuple[Any, ...]:
    """(input, target, weight, reduction, ignore_index) for an input (N, C, ...)."""
    weight = uniform(3, shape[1]).abs() if weighted else None
    t = targets(shape[1], shape[0], *shape[2:], ignored=ignored)
    return uniform(1, *shape, **kind), t, weight, reduction, IGNORE  # type: ignore[arg-type]


def _zero_weights(reduction: str) -> tuple[Any, ...]:
    """Classes that count for nothing, whose numbers are not finite."""
    weight = torch.tensor([0.0, -0.0, 1.0, float("inf"), 0.5])
    return uniform(1, 60, 5, special=True), targets(5, 60), weight, reduction, IGNORE


def backward(
    shape: Sequence[int], reduction: str = "mean", weighted: bool = False, ignored: bool = False
) -> tuple[Any, ...]:
    """(grad, input, target, weight, total_weight, reduction, ignore_index)."""
    x, t, weight, *_ = loss(shape, reduction, weighted, ignored)
    grad = uniform(5, *(t.shape if reduction == "none" else ()))
    return grad, x, t, weight, torch.tensor(3.7), reduction, IGNORE


def _backward(*args: object) -> tuple[Any, ...]:
    grad, x, t, weight, total, reduction, ignore = backward(*args)  # type: ignore[arg-type]
    return grad, t, weight, total, x.shape[1], reduction, ignore


VARIANTS = [(r, w, i) for r in REDUCTIONS for w in (False, True) for i in (False, True)]
DTYPES = {("none", True, False): DOUBLE, ("mean", False, False): DOUBLE, ("mean", True, True): EVERY}
"""Those of some variants, with two dimensions; with more, that of `IN_DOUBLE` is made in float64."""
IN_DOUBLE = ("sum", True, False)


def variant(reduction: str, weighted: bool, ignored: bool) -> str:
    return reduction + "_weighted" * weighted + "_ignored" * ignored


def variants(op: str, make: Callable[..., tuple[Any, ...]]) -> list[Case]:
    """All of them, of two dimensions and of more; `make(shape, reduction, weighted, ignored)` gives the arguments."""
    plain = [
        Case(
            op,
            variant(*v),
            lambda v=v: make((11, 7), *v),
            dtypes=DTYPES.get(v, ()),
            mixed=v == ("mean", True, True),
        )
        for v in VARIANTS
    ]
    dims = [
        Case(
            op,
            f"dims_{variant(*v)}",
            lambda v=v: make((3, 4, 5, 2), *v),
            dtypes=DOUBLE if v == IN_DOUBLE else (),
        )
        for v in VARIANTS
    ]
    return [*plain, *dims]


CASES = [
    *variants("nll_loss", loss),
    *(
        Case("nll_loss", f"rows_{n}", lambda n=n: loss((n, 3), "mean", True), dtypes=DOUBLE if n == 1025 else ())
        for n in (1, 63, 65, 1025, 2100)
    ),
    Case("nll_loss", "special", lambda: loss((40, 5), "none", special=True), dtypes=EVERY),
    *(Case("nll_loss", f"zero_weights_{r}", lambda r=r: _zero_weights(r), dtypes=DOUBLE) for r in ("none", "sum")),
    Case("nll_loss", "subnormal", lambda: loss((40, 5), "mean", True, scale=2.0**-128), dtypes=DOUBLE),
    Case("nll_loss", "all_ignored", lambda: (uniform(1, 4, 3), torch.full((4,), IGNORE), None, "mean", IGNORE)),
    Case("nll_loss", "ignore_a_class", lambda: (uniform(1, 9, 3), targets(3, 9), None, "mean", 1)),
    Case("nll_loss", "empty", lambda: loss((0, 3)), dtypes=EVERY),
    Case("nll_loss", "one_class", lambda: loss((5, 1))),
    Case("nll_loss", "transposed", lambda: (uniform(1, 7, 11).t(), targets(7, 11), None, "mean", IGNORE), dtypes=EVERY),
    Case(
        "nll_loss",
        "strided_targets",
        lambda: (uniform(1, 5, 7), targets(7, 10)[::2], uniform(3, 14)[::2], "mean", IGNORE),
    ),
    *variants("nll_loss_backward", _backward),
    Case(
        "nll_loss_backward",
        "ignore_a_class",
        lambda: (uniform(5), targets(3, 9), None, torch.tensor(5.0), 3, "mean", 1),
        dtypes=DOUBLE,
    ),
    Case(
        "nll_loss_backward",
        "special",
        lambda: (uniform(5, 150, special=True), targets(5, 150), uniform(3, 5), torch.tensor(1.0), 5, "none", IGNORE),
        dtypes=EVERY,
    ),
    Case(
        "nll_loss_backward",
        "subnormal",
        lambda: (uniform(5, 40, scale=2.0**-130), targets(5, 40), None, torch.tensor(1.0), 5, "none", IGNORE),
        dtypes=DOUBLE,
    ),
    Case("nll_loss_backward", "empty", lambda: _backward((0, 3)), dtypes=EVERY),
    Case(
        "nll_loss_backward",
        "expanded_grad",
        lambda: (torch.tensor(0.3).expand(9), targets(3, 9), None, torch.tensor(1.0), 3, "none", IGNORE),
    ),
]
