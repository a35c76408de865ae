"""Cases of addmm: beta and alpha, what broadcasts, layouts, special values."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform


def _operands(*shape: int, m: int = 9, k: int = 300, n: int = 21, **kind: Any) -> tuple[torch.Tensor, ...]:
    return uniform(1, *shape, **kind), uniform(2, m, k, **kind), uniform(3, k, n, **kind)


CASES = [
    *(
        Case("addmm", f"beta_{b}_alpha_{a}", lambda b=b, a=a: (*_operands(9, 21), b, a), dtypes=EVERY if b == a else ())
        for b in (1.0, 0.0, -0.3)
        for a in (1.0, 0.0, 0.7)
    ),
    *(
        Case("addmm", f"input_{'x'.join(map(str, shape)) or 'of_one'}", lambda s=shape: (*_operands(*s), 0.5, 3.0))
        for shape in ((21,), (9, 1), (1, 21), (1,), ())
    ),
    Case("addmm", "special", lambda: (*_operands(6, 7, m=6, k=5, n=7, special=True), 0.5, 2.0), dtypes=EVERY),
    Case(
        "addmm",
        "special_input_not_read",
        lambda: (torch.full((6, 7), torch.nan), uniform(2, 6, 5), uniform(3, 5, 7), 0.0, 1.0),
        dtypes=EVERY,
    ),
    Case("addmm", "subnormal", lambda: (*_operands(9, 11, k=70, n=11, scale=2.0**-66), 0.3, 0.7), dtypes=DOUBLE),
    Case("addmm", "subnormal_beta", lambda: (*_operands(9, 21), 1e-45, 1e-46)),
    Case(
        "addmm",
        "strided",
        lambda: (uniform(1, 21, 9).t(), uniform(2, 60, 9).t(), uniform(3, 120, 21)[::2], -1.5, 0.25),
        dtypes=EVERY,
    ),
    Case("addmm", "empty", lambda: (*_operands(5, m=0, n=5), 1.0, 1.0), dtypes=EVERY),
    Case("addmm", "no_terms", lambda: (*_operands(9, 5, k=0, n=5), 2.0, 1.0)),
    # alpha * (a @ b): the product underflows before alpha could save it.
    Case("addmm", "alpha_after_the_product", lambda: (torch.zeros(1), torch.tensor([[2.0**-100]]), torch.tensor([[2.0**-60]]), 1.0, 2.0**100)),
    # Fused with the product of beta, the sum would be 2**-24.
    Case("addmm", "beta_not_fused", lambda: (torch.tensor([[1 + 2.0**-12]]), torch.tensor([[-(1 + 2.0**-11)]]), torch.ones(1, 1), 1 + 2.0**-12, 1.0)),
    Case("addmm", "batch", lambda: (uniform(1, 3, 1, 11), uniform(2, 3, 7, 30), uniform(3, 3, 30, 11), 0.5, 2.0), dtypes=EVERY),
]  # fmt: skip
