"""Cases of the losses of elements beside those of their rows."""

from __future__ import annotations

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

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
    Case(
        "binary_cross_entropy_with_logits",
        "subnormal",
        lambda: (torch.arange(97) * 0.25 + 80.0, torch.ones(97), None, None, "none"),
    ),
    Case("kl_div", "subnormal", lambda: (uniform(1, 300), uniform(2, 300, scale=2.0**-127).abs(), False, "none")),
]
