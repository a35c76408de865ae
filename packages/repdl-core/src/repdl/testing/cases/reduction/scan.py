"""Cases of scan: lengths around the block, every dimension, layouts, zeros, recurrences that grow and fade."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform


def _pair(*shape: int, dim: int = 0, **kind: Any) -> tuple[Any, ...]:
    return uniform(1, *shape, **kind), uniform(2, *shape, **kind), dim


def _blocks() -> tuple[Any, ...]:
    # Behind the first block 1 meets its own block's chain, not 2**25: the chain of the second block is 2.
    x = torch.zeros(1030)
    x[0], x[1024], x[1025] = 2.0**25, 1.0, 1.0
    return x, 0


CASES = [
    *(
        Case("cumsum", f"row_{n}", lambda n=n: (uniform(1, 2, n), 1), dtypes=DOUBLE if n == 1025 else ())
        for n in (1, 2, 63, 65, 1023, 1024, 1025, 2049, 3100)
    ),
    *(Case("cumsum", f"dim_{d}", lambda d=d: (uniform(2, 3, 40, 5), d), dtypes=EVERY) for d in range(3)),
    *(Case("cumsum", f"columns_{c}", lambda c=c: (uniform(1, 30, c), 0)) for c in (1, 63, 64, 65, 130)),
    Case("cumsum", "columns_of_blocks", lambda: (uniform(1, 1100, 70), 0), dtypes=DOUBLE),
    Case("cumsum", "special", lambda: (uniform(3, 9, 60, special=True), 1), dtypes=EVERY),
    Case("cumsum", "subnormal", lambda: (uniform(3, 9, 60, scale=2.0**-140), 1), dtypes=DOUBLE),
    Case("cumsum", "negative_zeros", lambda: (torch.full((3, 5), -0.0), 1)),
    Case("cumsum", "overflow", lambda: (torch.full((2, 1100), 3e38) * torch.tensor([[1.0], [-1.0]]), 1)),
    Case("cumsum", "transposed", lambda: (uniform(4, 9, 40).t(), 0), dtypes=EVERY),
    Case("cumsum", "strided", lambda: (uniform(5, 20, 40)[::3, 1::3], 1), dtypes=DOUBLE),
    Case("cumsum", "expanded", lambda: (uniform(6, 5, 1).expand(5, 70), 1)),
    Case("cumsum", "empty", lambda: (uniform(6, 3, 0), 1), dtypes=EVERY),
    Case("cumsum", "no_rows", lambda: (uniform(6, 0, 3), 1)),
    Case("cumsum", "blocks_have_their_own_chain", _blocks),
    *(
        Case("linear_scan", f"row_{n}", lambda n=n: _pair(2, n, dim=1), dtypes=DOUBLE if n == 65 else ())
        for n in (1, 2, 3, 65, 1100)
    ),
    *(Case("linear_scan", f"dim_{d}", lambda d=d: _pair(3, 20, 5, dim=d), dtypes=EVERY) for d in range(3)),
    *(Case("linear_scan", f"columns_{c}", lambda c=c: _pair(30, c)) for c in (1, 64, 65, 130)),
    Case("linear_scan", "special", lambda: _pair(9, 60, special=True), dtypes=EVERY),
    Case("linear_scan", "subnormal", lambda: _pair(30, 9, scale=2.0**-66), dtypes=DOUBLE),
    Case("linear_scan", "grows", lambda: (torch.full((200,), 2.0), uniform(1, 200), 0)),
    Case("linear_scan", "transposed", lambda: (uniform(1, 7, 9).t(), uniform(2, 9, 7), 0), dtypes=EVERY),
    Case("linear_scan", "strided", lambda: (uniform(1, 30, 9)[::2, 1::3], uniform(2, 30, 9)[::2, 1::3], 1)),
    Case("linear_scan", "empty", lambda: _pair(0, 5), dtypes=EVERY),
    # (1 + 2**-12)**2 - 1: rounded before the sum, the product loses 2**-24.
    Case("linear_scan", "fused_not_rounded_twice", lambda: (torch.tensor([0.0, 1 + 2.0**-12]), torch.tensor([1 + 2.0**-12, -1.0]), 0)),
    *(Case("cumprod", f"dim_{d}", lambda d=d: (uniform(2, 3, 40, 5) + 1.0, d), dtypes=EVERY) for d in range(3)),
    Case("cumprod", "special", lambda: (uniform(3, 9, 60, special=True), 1), dtypes=EVERY),
    Case("cumprod", "signs_of_zero", lambda: (torch.tensor([[1.0, -0.0, 1.0, -1.0], [-0.0, 1.0, 1.0, -1.0]]), 1)),
    Case("cumprod", "values", lambda: (uniform(3, 300), 0), dtypes=DOUBLE),
    Case("cumprod", "transposed", lambda: (uniform(4, 9, 40).t(), 0), dtypes=EVERY),
    Case("cumprod", "empty", lambda: (uniform(6, 3, 0), 1), dtypes=EVERY),
    Case("cumprod", "one", lambda: (uniform(6, 3, 1), 1)),
    Case("logcumsumexp", "values", lambda: (uniform(2, 3, 70, scale=30.0), 1), dtypes=EVERY),
    Case("logcumsumexp", "special", lambda: (uniform(3, 9, 20, special=True), 1)),
    Case("logcumsumexp", "subnormal", lambda: (uniform(3, 9, 4, scale=2.0**-130), 1)),
    Case("logcumsumexp", "transposed", lambda: (uniform(4, 5, 33).t(), 0)),
    Case("logcumsumexp", "empty", lambda: (uniform(6, 3, 0), 1)),
]  # fmt: skip
