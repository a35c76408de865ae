"""Cases of cross_entropy: those of nll_loss, and rows of special values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.cases.activation.softmax import ROWS
from repdl.testing.cases.losses.nll_loss import DTYPES, IGNORE, VARIANTS, backward, loss, targets, variant, variants
from repdl.testing.inputs import uniform


def _forward(shape: Sequence[int], *options: Any) -> tuple[Any, ...]:
    return loss(shape, *options, scale=8.0 if len(shape) == 2 else 1.0)


def _backward(*args: object, **kind: object) -> tuple[Any, ...]:
    """Arguments of cross_entropy_backward."""
    grad, x, t, weight, total, reduction, ignore = backward(*args, **kind)  # type: ignore[arg-type]
    return _with_rows(grad, x, t, weight, total, reduction, ignore)


def _with_rows(
    grad: torch.Tensor,
    x: torch.Tensor,
    t: torch.Tensor,
    weight: torch.Tensor | None,
    total: torch.Tensor,
    reduction: str,
    ignore: int,
) -> tuple[Any, ...]:
    m = uniform(8, *t.shape).abs()
    return grad, x, t, weight, total, m, uniform(9, *t.shape).abs(), reduction, ignore


def _probabilities(shape: tuple[int, ...], reduction: str, weighted: bool, smoothing: float) -> tuple[Any, ...]:
    """Arguments of cross_entropy_of_probabilities."""
    weight = uniform(3, shape[1]).abs() if weighted else None
    return uniform(1, *shape, scale=8.0), uniform(2, *shape).abs(), weight, reduction, smoothing


def _transposed(grad: torch.Tensor, x: torch.Tensor, *rest: object) -> tuple[Any, ...]:
    return grad, uniform(1, 7, 11).t(), *rest


CASES = [
    *variants("cross_entropy", _forward),
    *(Case("cross_entropy", f"classes_{c}", lambda c=c: loss((2, c))) for c in (1, 2, 16, 17, 64, 65, 1000, 1025)),
    *(
        Case("cross_entropy", f"rows_{n}", lambda n=n: loss((n, 3), "mean", True), dtypes=DOUBLE if n == 1025 else ())
        for n in (1, 63, 65, 1025)
    ),
    Case(
        "cross_entropy",
        "special",
        lambda: (torch.tensor(ROWS), targets(3, len(ROWS)), None, "none", IGNORE),
        dtypes=EVERY,
    ),
    *(
        Case("cross_entropy", f"images_{r}", lambda r=r: loss((2, 5, 30, 21), r, True, True, scale=8.0), dtypes=EVERY)
        for r in ("none", "mean")
    ),
    Case("cross_entropy", "no_positions", lambda: loss((2, 5, 0), "none"), dtypes=EVERY),
    Case("cross_entropy", "few_positions", lambda: loss((20, 7, 3), "mean", True, True), dtypes=EVERY),
    Case("cross_entropy", "images_of_many", lambda: loss((2, 1100, 3), "sum"), dtypes=DOUBLE),
    Case(
        "cross_entropy",
        "special_images",
        lambda: (torch.tensor(ROWS).t()[None], targets(3, 1, len(ROWS), ignored=True), None, "none", IGNORE),
        dtypes=EVERY,
    ),
    Case("cross_entropy", "all_ignored", lambda: (uniform(1, 4, 3), torch.full((4,), IGNORE), None, "mean", IGNORE)),
    Case("cross_entropy", "empty", lambda: loss((0, 3)), dtypes=EVERY),
    Case(
        "cross_entropy",
        "transposed",
        lambda: (uniform(1, 7, 11).t(), targets(7, 11), None, "mean", IGNORE),
        dtypes=EVERY,
    ),
    *variants("cross_entropy_backward", _backward),
    Case(
        "cross_entropy_backward",
        "subnormal",
        lambda: (torch.tensor(2.0**-130), *_backward((11, 7), "sum", True)[1:]),
        dtypes=DOUBLE,
    ),
    *(
        Case(
            "cross_entropy_backward", f"images_{r}", lambda r=r: _backward((2, 5, 30, 21), r, True, True), dtypes=EVERY
        )
        for r in ("none", "mean")
    ),
    Case("cross_entropy_backward", "no_positions", lambda: _backward((2, 5, 0), "none"), dtypes=EVERY),
    Case("cross_entropy_backward", "few_positions", lambda: _backward((20, 7, 3), "none", True, True), dtypes=EVERY),
    Case("cross_entropy_backward", "images_of_many", lambda: _backward((2, 1100, 3), "sum"), dtypes=DOUBLE),
    Case(
        "cross_entropy_backward",
        "special_images",
        lambda: _with_rows(
            torch.tensor(0.5),
            torch.tensor(ROWS).t()[None],
            targets(3, 1, len(ROWS), ignored=True),
            None,
            torch.tensor(2.0),
            "mean",
            IGNORE,
        ),
        dtypes=EVERY,
    ),
    Case("cross_entropy_backward", "wide", lambda: _backward((3, 130))),
    Case("cross_entropy_backward", "transposed", lambda: _transposed(*_backward((11, 7), "sum", True)), dtypes=EVERY),
    Case("cross_entropy_backward", "empty", lambda: _backward((0, 3)), dtypes=EVERY),
    Case(
        "cross_entropy_backward",
        "special",
        lambda: _with_rows(
            torch.tensor(0.5), torch.tensor(ROWS), targets(3, len(ROWS)), None, torch.tensor(0.0), "mean", IGNORE
        ),
        dtypes=EVERY,
    ),
    *(
        Case(
            "cross_entropy_of_probabilities",
            f"{r}{'_weighted' * w}{'_smoothed' * (a > 0)}",
            lambda r=r, w=w, a=a: _probabilities((11, 7), r, w, a),
            dtypes=EVERY if w == (a > 0) else (),
        )
        for r in ("none", "mean", "sum")
        for w in (False, True)
        for a in (0.0, 0.1)
    ),
    Case("cross_entropy_of_probabilities", "dims", lambda: _probabilities((3, 4, 5, 2), "mean", True, 0.3)),
    Case("cross_entropy_of_probabilities", "empty", lambda: _probabilities((0, 3), "mean", False, 0.1), dtypes=EVERY),
    Case(
        "cross_entropy_of_probabilities",
        "special",
        lambda: (torch.tensor(ROWS), torch.tensor(ROWS).flip(0), None, "none", 0.0),
        dtypes=EVERY,
    ),
    Case(
        "cross_entropy_of_probabilities",
        "transposed",
        lambda: (uniform(1, 7, 11).t(), uniform(2, 7, 11).abs().t(), None, "mean", 1.0),
        dtypes=EVERY,
    ),
    *(
        Case(
            "cross_entropy_smoothed",
            variant(*v),
            lambda v=v: (*loss((11, 7), *v, scale=8.0), 0.1),
            dtypes=DTYPES.get(v, ()),
            mixed=v == ("mean", True, True),
        )
        for v in VARIANTS
    ),
    Case("cross_entropy_smoothed", "dims", lambda: (*loss((3, 4, 5, 2), "mean", True, True), 0.3)),
    Case("cross_entropy_smoothed", "empty", lambda: (*loss((0, 3)), 0.1), dtypes=EVERY),
    Case(
        "cross_entropy_smoothed",
        "subnormal",
        lambda: (uniform(1, 11, 7), targets(7, 11), uniform(3, 7, scale=2.0**-130).abs(), "none", IGNORE, 0.1),
    ),
    Case(
        "cross_entropy_smoothed",
        "special",
        lambda: (torch.tensor(ROWS), targets(3, len(ROWS)), None, "none", IGNORE, 1.0),
        dtypes=EVERY,
    ),
    Case(
        "cross_entropy_smoothed",
        "transposed",
        lambda: (uniform(1, 7, 11).t(), targets(7, 11), None, "mean", IGNORE, 0.1),
        dtypes=EVERY,
    ),
]
