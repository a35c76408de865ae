"""Cases of matmul: every transpose, k around the chunk, batches, layouts, special values."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform


def _product(m: int, n: int, k: int, transA: bool = False, transB: bool = False, **kind: object) -> tuple[Any, ...]:
    a = uniform(1, *((k, m) if transA else (m, k)), **kind)  # type: ignore[arg-type]
    b = uniform(2, *((n, k) if transB else (k, n)), **kind)  # type: ignore[arg-type]
    return a, b, transA, transB


def _underflow(m: int = 3, n: int = 4, k: int = 5, transB: bool = False) -> tuple[Any, ...]:
    # Products of about -2**-150 round to -0: padding the chain with zeros would give +0.
    a = torch.full((m, k), 2.0**-75)
    b = torch.full((n, k) if transB else (k, n), -(2.0**-76))
    return a, b, False, transB


def _fused() -> tuple[Any, ...]:
    # (1 + 2**-12)**2 - (1 + 2**-11) is 2**-24 with a fused multiply-add, 0 without.
    a = torch.tensor([[-1.0, 1 + 2.0**-12]])
    b = torch.tensor([[1 + 2.0**-11], [1 + 2.0**-12]])
    return a, b, False, False


def _infinity(m: int, n: int, k: int) -> tuple[Any, ...]:
    # inf - inf: the NaN that a processor makes has a sign, the canonical one has none.
    a = uniform(1, m, k)
    a[:, 3], a[:, 5] = float("inf"), float("-inf")
    return a, uniform(2, n, k).abs(), False, True


CASES = [
    *(
        Case(
            "matmul",
            f"{m}x{n}x{k}{'_transA' * ta}{'_transB' * tb}",
            lambda m=m, n=n, k=k, ta=ta, tb=tb: _product(m, n, k, ta, tb),
        )
        for m, n, k in [(1, 1, 1), (5, 7, 3), (17, 33, 65), (40, 100, 30)]
        for ta in (False, True)
        for tb in (False, True)
    ),
    *(
        Case("matmul", f"k_{k}", lambda k=k: _product(3, 5, k), dtypes={257: DOUBLE, 513: EVERY}.get(k, ()))
        for k in (255, 256, 257, 511, 512, 513, 768, 1023, 1025, 1793, 2049)
    ),
    *(
        Case("matmul", f"few_rows_{m}x{n}x{k}", lambda m=m, n=n, k=k: _product(m, n, k, False, True))
        for m, n, k in [(1, 16, 256), (1, 47, 257), (2, 33, 513), (3, 40, 1025), (4, 31, 270)]
    ),
    *(
        Case("matmul", f"one_row_{n}x{k}", lambda n=n, k=k: _product(1, n, k, False, True))
        for n, k in [(5, 4096), (19, 4097), (3, 2900), (4, 8292), (2, 4081), (3, 4090), (2, 4095)]
    ),
    Case(
        "matmul",
        "one_row_strided",
        lambda: (uniform(1, 3000, 2)[:, :1].t(), uniform(2, 7, 3100)[:, 50:-50].t(), False, False),
    ),
    Case("matmul", "one_row_special", lambda: _product(1, 6, 3000, False, True, special=True)),
    Case("matmul", "one_row_underflow", lambda: _underflow(1, 3, 2900, True)),
    Case("matmul", "few_rows_strided", lambda: (uniform(1, 300, 4).t()[:3], uniform(2, 40, 300).t(), False, False)),
    *(Case("matmul", f"few_rows_underflow_{m}", lambda m=m: _underflow(m, 37, 21, True)) for m in (2, 3, 4)),
    *(Case("matmul", f"few_rows_infinity_{m}", lambda m=m: _infinity(m, 37, 21)) for m in (1, 2, 3, 4)),
    Case("matmul", "few_rows_special", lambda: (*_product(2, 37, 19, False, True, special=True)[:2], False, True)),
    Case("matmul", "rows_1", lambda: _product(1, 130, 300, False, True)),
    Case("matmul", "columns_1", lambda: _product(130, 1, 300)),
    Case("matmul", "columns_1_long", lambda: _product(21, 1, 3000), dtypes=DOUBLE),
    Case("matmul", "columns_1_transposed", lambda: _product(70, 1, 40, True, False)),
    Case("matmul", "columns_1_special", lambda: (*_product(37, 1, 19, special=True)[:2], False, False)),
    Case("matmul", "empty_m", lambda: _product(0, 5, 3)),
    Case("matmul", "empty_n", lambda: _product(5, 0, 3)),
    Case("matmul", "empty_k", lambda: _product(4, 5, 0)),
    Case("matmul", "special", lambda: _product(9, 11, 7, special=True), dtypes=EVERY),
    Case("matmul", "subnormal", lambda: _product(9, 35, 70, scale=2.0**-70), dtypes=DOUBLE),
    Case(
        "matmul",
        "subnormal_operand",
        lambda: (uniform(1, 9, 70, scale=2.0**-130), uniform(2, 70, 11, scale=2.0**20), False, False),
    ),
    Case("matmul", "underflow_keeps_sign", _underflow, dtypes=DOUBLE),
    Case("matmul", "fused_not_rounded_twice", _fused, dtypes=DOUBLE),
    Case("matmul", "batched", lambda: (uniform(1, 3, 5, 300), uniform(2, 3, 300, 7), False, False), dtypes=DOUBLE),
    Case(
        "matmul", "batched_broadcast", lambda: (uniform(1, 2, 1, 5, 6), uniform(2, 3, 6, 7), False, False), dtypes=EVERY
    ),
    Case("matmul", "batched_trans", lambda: (uniform(1, 3, 6, 5), uniform(2, 3, 7, 6), True, True)),
    Case("matmul", "batch_0", lambda: (uniform(1, 0, 5, 6), uniform(2, 0, 6, 7), False, False)),
    Case(
        "matmul",
        "strided",
        lambda: (uniform(1, 20, 12)[::2, ::3], uniform(2, 8, 4).t()[:, ::2], False, False),
        dtypes=EVERY,
    ),
    Case(
        "matmul",
        "expanded",
        lambda: (uniform(1, 1, 6).expand(4, 6), uniform(2, 6, 1).expand(6, 5), False, False),
        dtypes=DOUBLE,
    ),
]
