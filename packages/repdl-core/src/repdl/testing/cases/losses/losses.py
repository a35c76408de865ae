"""Cases of the losses of elements and rows beside those of their rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from repdl.dtypes import FLOATS_16_BIT
from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.generated import some_specials
from repdl.testing.inputs import index, uniform

REDUCTIONS = ("none", "mean", "sum")
_WITH_LOGITS = "binary_cross_entropy_with_logits_elements"


def _labels() -> torch.Tensor:
    """(7, 5): classes up to the first -1, twice the same, one, none, all."""
    lists = [[0, 2, -1, 3, 1], [4, 4, -1, -1, 0], [1, -1, 0, 0, 0], [-1, 1, 2, 3, 4], [4, 3, 2, 1, 0]]
    return torch.tensor([*lists, [2, 0, 1, -1, -1], [3, -1, -1, -1, -1]])


def _special_rows() -> tuple[Any, ...]:
    x, y = torch.broadcast_tensors(some_specials().unsqueeze(1), some_specials())
    return x, y, None, "none"


def _probabilities(one: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Each special probability, and neighbours of the ends, with each special target; `one` in the place of 1, of which
    a derived case in float64 makes a number above it."""
    x = torch.tensor([0.0, one, 0.5, 2.0**-149, 2.0**-126, 1.0 - 2.0**-24, 2.0**-24, 1e-30, 0.1])
    return x.unsqueeze(1), some_specials()


def _signs(n: int) -> torch.Tensor:
    return torch.where(uniform(3, n) < 0, -1.0, 1.0)


def _triplet(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return uniform(1, *shape), uniform(2, *shape), uniform(3, *shape)


def _of_each(make: Callable[[str], tuple[Any, ...]]) -> dict[str, Callable[[], tuple[Any, ...]]]:
    """A case for each reduction."""
    return {r: partial(make, r) for r in REDUCTIONS}


def _operands(count: int, *shape: int, **kind: Any) -> tuple[torch.Tensor, ...]:
    return tuple(uniform(i + 1, *shape, **kind) for i in range(count))


CASES = [
    Case(
        "binary_cross_entropy_with_logits",
        "weights",
        lambda: (uniform(1, 20, 7), uniform(2, 20, 7).abs(), uniform(3, 20, 1), uniform(4, 7), "mean"),
        dtypes=EVERY,
    ),
    Case("kl_div", "batchmean", lambda: (uniform(1, 9, 50), uniform(2, 9, 50).abs(), False, "batchmean")),
    Case("kl_div", "zero", lambda: (uniform(1, 9), torch.zeros(9), False, "none")),
    Case("mse_loss", "subnormal", lambda: (uniform(1, 300, scale=2.0**-67), uniform(2, 300, scale=2.0**-67), "none")),
    Case(
        "huber_loss",
        "subnormal",
        lambda: (uniform(1, 300, scale=2.0**-67), uniform(2, 300, scale=2.0**-67), 1.0, "none"),
    ),
    Case("huber", "subnormal", lambda: (uniform(1, 300, scale=2.0**-67), 1.0)),
    Case("smooth_l1", "subnormal", lambda: (uniform(1, 300, scale=2.0**-67), 1.0)),
    Case(
        "binary_cross_entropy_with_logits",
        "subnormal",
        lambda: (torch.arange(97) * 0.25 + 80.0, torch.ones(97), None, None, "none"),
    ),
    Case("kl_div", "subnormal", lambda: (uniform(1, 300), uniform(2, 300, scale=2.0**-127).abs(), False, "none")),
    *(
        case
        for op, count in ((_WITH_LOGITS, 2), (f"{_WITH_LOGITS}_backward", 3))
        for case in (
            Case(op, "values", lambda count=count: _operands(count, 1037, scale=4.0), dtypes=EVERY),
            Case(op, "special", lambda count=count: _operands(count, 1037, special=True), dtypes=EVERY),
            Case(op, "strided", lambda count=count: tuple(x[::2, 1::3] for x in _operands(count, 30, 9))),
            Case(op, "empty", lambda count=count: _operands(count, 0, 5)),
            Case(op, "dim_0", lambda count=count: _operands(count)),
        )
    ),
    Case(_WITH_LOGITS, "subnormal", lambda: (torch.arange(97) * 0.25 + 80.0, torch.ones(97))),
    Case(f"{_WITH_LOGITS}_backward", "subnormal", lambda: (uniform(1, 97, scale=2.0**-130), uniform(2, 97), uniform(3, 97))),
    Case("binary_cross_entropy_elements", "special", lambda: _probabilities(1.0), dtypes=FLOATS_16_BIT),
    Case("binary_cross_entropy_elements", "below_1", lambda: _probabilities(0.25), dtypes=DOUBLE),
    Case("binary_cross_entropy_elements", "values", lambda: (uniform(1, 1037).abs(), uniform(2, 1037)), dtypes=EVERY),
    Case(
        "binary_cross_entropy_elements", "strided", lambda: (uniform(1, 30, 9).abs()[::2, 1::3], uniform(2, 3, 15).t())
    ),
    Case("binary_cross_entropy_elements", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5))),
    Case("binary_cross_entropy_elements", "dim_0", lambda: (uniform(1).abs(), uniform(2))),
    Case(
        "binary_cross_entropy", "weight_0",
        lambda: (uniform(1, 20, 30).abs(), uniform(2, 20, 30).abs(), uniform(3, 30), "mean"), dtypes=EVERY,
    ),
    Case(
        "gaussian_nll_loss", "subnormal_square",
        lambda: (uniform(1, 30, scale=2.0**-63), uniform(2, 30, scale=2.0**-63), torch.ones(30), False, 1e-6, "none"),
    ),
    Case(
        "gaussian_nll_loss", "subnormal_variance",
        lambda: (
            uniform(1, 30, scale=2.0**-66), uniform(2, 30, scale=2.0**-66), uniform(3, 30, scale=2.0**-130).abs(),
            False, 1e-41, "none",
        ),
    ),
    Case("soft_margin_loss", "subnormal", lambda: (torch.arange(97) * 0.25 + 80.0, torch.ones(97), "none")),
    Case("nll_variance", "subnormal", lambda: (torch.tensor([2e-39, 1e-41, 3.0]), 1e-40)),
    *(
        Case("nll_variance", f"{name}_{i}", lambda m=make, e=least: (m(), e), dtypes=EVERY)
        for i, least in enumerate((1e-6, 0.25, 1e-40))
        for name, make in {
            "special": lambda: some_specials()[~(some_specials() < 0)],
            "values": lambda: uniform(1, 1037).abs(),
            "strided": lambda: uniform(2, 30, 9).abs()[::2, 1::3],
            "empty": lambda: uniform(2, 0, 5),
        }.items()
    ),
    *(
        Case("multilabel_soft_margin_loss", name, make, dtypes=EVERY if name == "special" else ())
        for name, make in {
            **_of_each(lambda r: (uniform(1, 9, 70, scale=4.0), uniform(2, 9, 70).abs(), None, r)),
            "weight": lambda: (uniform(1, 5, 7), uniform(2, 5, 7).abs(), uniform(3, 7), "mean"),
            "special": lambda: _special_rows(),
            "subnormal": lambda: (uniform(1, 5, 7), uniform(2, 5, 7).abs(), uniform(3, 7, scale=2.0**-130), "none"),
            "transposed": lambda: (uniform(1, 7, 5).t(), uniform(2, 5, 7).abs(), None, "none"),
            "dim_1": lambda: (uniform(1, 7), uniform(2, 7).abs(), None, "none"),
            "empty": lambda: (uniform(1, 0, 7), uniform(2, 0, 7), None, "mean"),
        }.items()
    ),
    *(
        Case("multi_margin_loss", name, make, dtypes=EVERY if name in ("special", "p_2") else ())
        for name, make in {
            **_of_each(lambda r: (uniform(1, 9, 70), index(2, 70, 9), 1, 1.0, None, r)),
            "p_2": lambda: (uniform(1, 9, 7), index(2, 7, 9), 2, 0.3, None, "none"),
            "weight": lambda: (uniform(1, 9, 7), index(2, 7, 9), 2, 1.0, uniform(3, 7), "mean"),
            "special": lambda: (uniform(1, 40, 5, special=True), index(2, 5, 40), 1, 1.0, None, "none"),
            "subnormal": lambda: (uniform(1, 9, 7), index(2, 7, 9), 1, 1.0, uniform(3, 7, scale=2.0**-130), "none"),
            "transposed": lambda: (uniform(1, 7, 9).t(), index(2, 7, 9), 1, 1.0, None, "none"),
            "empty": lambda: (uniform(1, 0, 7), index(2, 7, 0), 1, 1.0, None, "mean"),
        }.items()
    ),
    *(
        Case("multilabel_margin_loss", name, make, dtypes=EVERY if name in ("special", "none") else ())
        for name, make in {
            **_of_each(lambda r: (uniform(1, 7, 5), _labels(), r)),
            "special": lambda: (uniform(1, 7, 5, special=True), _labels(), "none"),
            "transposed": lambda: (uniform(1, 5, 7).t(), _labels(), "none"),
            "many": lambda: (uniform(1, 2, 40), index(2, 41, 2, 40) - 1, "sum"),
            "empty": lambda: (uniform(1, 0, 5), _labels()[:0], "mean"),
        }.items()
    ),
    *(
        Case("cosine_embedding_loss", name, make, dtypes=EVERY if name in ("special", "mean") else ())
        for name, make in {
            **_of_each(lambda r: (uniform(1, 9, 70), uniform(2, 9, 70), _signs(9), 0.1, r)),
            "special": lambda: (uniform(1, 40, 3, special=True), uniform(2, 40, 3), _signs(40), 0.0, "none"),
            "subnormal": lambda: (uniform(1, 9, 7, scale=2.0**-147), uniform(2, 9, 7), -torch.ones(9), 0.0, "none"),
            "zeros": lambda: (torch.zeros(4, 3), uniform(2, 4, 3), _signs(4), 0.5, "none"),
            "transposed": lambda: (uniform(1, 7, 9).t(), uniform(2, 9, 7), _signs(9), 0.0, "none"),
            "dim_1": lambda: (uniform(1, 7), uniform(2, 7), torch.tensor(-1.0), 0.0, "mean"),
            "empty": lambda: (uniform(1, 0, 7), uniform(2, 0, 7), _signs(0), 0.0, "mean"),
        }.items()
    ),
    *(
        Case("triplet_margin_loss", name, make, dtypes=EVERY if name in ("special", "mean") else ())
        for name, make in {
            **_of_each(lambda r: (*_triplet(9, 70), 1.0, 2.0, 1e-6, False, r)),
            "swap": lambda: (*_triplet(9, 7), 0.5, 2.0, 1e-6, True, "none"),
            "p_1": lambda: (*_triplet(9, 7), 0.5, 1.0, 1e-6, True, "none"),
            "p_3": lambda: (*_triplet(9, 7), 0.5, 3.0, 1e-6, False, "none"),
            "special": lambda: (uniform(1, 40, 3, special=True), uniform(2, 40, 3), uniform(3, 1, 3), 1.0, 2.0, 1e-6, True, "none"),
            "subnormal": lambda: (*(t * 2.0**-130 for t in _triplet(9, 7)), 1e-40, 1.0, 0.0, False, "none"),
            "transposed": lambda: (uniform(1, 7, 9).t(), uniform(2, 9, 7), uniform(3, 9, 7), 1.0, 2.0, 1e-6, False, "none"),
            "empty": lambda: (*_triplet(0, 7), 1.0, 2.0, 1e-6, False, "mean"),
        }.items()
    ),
]  # fmt: skip
