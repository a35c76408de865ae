"""Cases of the losses of elements: special values, reductions, broadcasting."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import SPECIAL, uniform

OPTIONS: dict[str, list[tuple[Any, ...]]] = {
    "mse_loss": [()],
    "l1_loss": [()],
    "huber_loss": [(1.0,), (0.3,)],
    "binary_cross_entropy_with_logits": [(None, None)],
    "kl_div": [(False,), (True,)],
}


def _target(op: str, seed: int, *shape: int) -> torch.Tensor:
    """Probabilities for the last two, anything for the others."""
    y = uniform(seed, *shape)
    return y.abs() if op in ("kl_div", "binary_cross_entropy_with_logits") else y


def _specials() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([*SPECIAL, 2.0, -1.0, 0.5])
    return x.unsqueeze(1), x


CASES = [
    case
    for op, kinds in OPTIONS.items()
    for i, kind in enumerate(kinds)
    for case in (
        Case(op, f"special_{i}", lambda k=kind: (*_specials(), *k, "none"), dtypes=EVERY),
        Case(op, f"values_{i}", lambda o=op, k=kind: (uniform(1, 1037), _target(o, 2, 1037), *k, "mean"), dtypes=EVERY),
        Case(op, f"sum_{i}", lambda o=op, k=kind: (uniform(1, 40, 30).t(), _target(o, 2, 30, 40), *k, "sum")),
        Case(op, f"empty_{i}", lambda o=op, k=kind: (uniform(1, 0, 5), _target(o, 2, 0, 5), *k, "mean")),
        Case(op, f"dim_0_{i}", lambda o=op, k=kind: (uniform(1), _target(o, 2), *k, "sum")),
    )
]
CASES += [
    Case(
        "binary_cross_entropy_with_logits",
        "weights",
        lambda: (uniform(1, 20, 7), uniform(2, 20, 7).abs(), uniform(3, 20, 1), uniform(4, 7), "mean"),
        dtypes=EVERY,
    ),
    Case("kl_div", "batchmean", lambda: (uniform(1, 9, 50), uniform(2, 9, 50).abs(), False, "batchmean")),
    Case("kl_div", "zero", lambda: (uniform(1, 9), torch.zeros(9), False, "none")),
]
CASES += [
    Case("mse_loss", "subnormal", lambda: (uniform(1, 300, scale=2.0**-67), uniform(2, 300, scale=2.0**-67), "none")),
    Case(
        "huber_loss",
        "subnormal",
        lambda: (uniform(1, 300, scale=2.0**-67), uniform(2, 300, scale=2.0**-67), 1.0, "none"),
    ),
    Case(
        "binary_cross_entropy_with_logits",
        "subnormal",
        lambda: (torch.arange(97) * 0.25 + 80.0, torch.ones(97), None, None, "none"),
    ),
    Case("kl_div", "subnormal", lambda: (uniform(1, 300), uniform(2, 300, scale=2.0**-127).abs(), False, "none")),
]
