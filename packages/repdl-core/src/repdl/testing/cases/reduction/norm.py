"""Cases of norm: every order, dimensions, zeros, special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

INF = float("inf")
PLAIN = (2.0, 1.0, 0.0, INF, -INF)
"""Orders without powers."""
Inputs = Callable[[], Tensor]


def _name(order: float) -> str:
    return f"order_{order}".replace("-", "minus_").replace(".", "_")


def _distances(op: str) -> list[Case]:
    number = int if op == "row_distances" else float
    return [
        *(
            Case(op, _name(p), lambda p=p: (uniform(1, 5, 9), uniform(2, 20, 9), number(p)), dtypes=EVERY)
            for p in (2.0, 1.0)
        ),
        *(
            Case(op, f"{m}_terms_{_name(p)}", lambda m=m, p=p: (uniform(1, 3, m), uniform(2, 18, m), number(p)), dtypes=DOUBLE)
            for m in (1, 16, 17, 64, 65, 1100)
            for p in (2.0, 1.0)
        ),
        Case(op, "batch", lambda: (uniform(1, 2, 3, 4, 7), uniform(2, 2, 3, 5, 7), number(2.0)), dtypes=EVERY),
        Case(op, "batches", lambda: (uniform(1, 3, 1, 4, 7), uniform(2, 2, 5, 7), number(1.0)), dtypes=EVERY),
        Case(op, "itself", lambda: (uniform(1, 19, 3), uniform(1, 19, 3), number(2.0)), dtypes=EVERY),
        Case(op, "special", lambda: (uniform(7, 9, 4, special=True), uniform(8, 21, 4, special=True), number(2.0)), dtypes=EVERY),
        Case(op, "subnormal", lambda: (uniform(7, 4, 5, scale=2.0**-66), uniform(8, 17, 5, scale=2.0**-66), number(2.0)), dtypes=DOUBLE),
        Case(op, "subnormal_sums", lambda: (uniform(7, 4, 5, scale=2.0**-130), uniform(8, 17, 5, scale=2.0**-130), number(1.0))),
        Case(op, "strided", lambda: (uniform(1, 9, 8)[::2, ::2], uniform(2, 4, 18).t(), number(1.0))),
        Case(op, "no_terms", lambda: (uniform(1, 3, 0), uniform(2, 4, 0), number(2.0))),
        Case(op, "no_rows", lambda: (uniform(1, 0, 3), uniform(2, 4, 3), number(2.0))),
        Case(op, "no_batch", lambda: (uniform(1, 0, 2, 3), uniform(2, 0, 4, 3), number(2.0))),
    ]  # fmt: skip


def _gradients(name: str, x1: Inputs, x2: Inputs, p: int, *batch: int, **options: Any) -> Case:
    """A case of row_distances_backward of operands that these make, and of a gradient with these sizes in front."""

    def make() -> tuple[Any, ...]:
        a, b = x1(), x2()
        return uniform(3, *batch, a.shape[-2], b.shape[-2]), a, b, p

    return Case("row_distances_backward", name, make, **options)


_GRADIENTS = [
    *(
        _gradients(f"{m}_columns_{r}_rows_order_{p}", lambda m=m: uniform(1, 5, m), lambda m=m, r=r: uniform(2, r, m), p, dtypes=DOUBLE)
        for m, r in ((1, 1), (3, 20), (7, 17), (8, 64), (19, 65), (40, 1100), (2, 1100))
        for p in (2, 1)
    ),
    _gradients("blocks_of_rows", lambda: uniform(1, 150, 3), lambda: uniform(2, 21, 3), 2, dtypes=DOUBLE),
    _gradients("batch", lambda: uniform(1, 2, 3, 4, 9), lambda: uniform(2, 2, 3, 5, 9), 2, 2, 3, dtypes=EVERY),
    _gradients("batches", lambda: uniform(1, 3, 1, 4, 9), lambda: uniform(2, 2, 5, 9), 1, 3, 2, dtypes=EVERY),
    _gradients("batches_of_rows", lambda: uniform(1, 1, 2, 4, 3), lambda: uniform(2, 3, 1, 5, 3), 2, 3, 2, dtypes=EVERY),
    _gradients("batches_in_front", lambda: uniform(1, 4, 3), lambda: uniform(2, 3, 2, 40, 3), 2, 3, 2, dtypes=DOUBLE),
    _gradients("itself", lambda: uniform(1, 19, 3), lambda: uniform(1, 19, 3), 1, dtypes=EVERY),
    *(
        _gradients(f"special_{m}_columns_order_{p}", lambda m=m: uniform(7, 9, m, special=True), lambda m=m: uniform(8, 21, m, special=True), p, dtypes=EVERY)
        for m, p in ((4, 2), (12, 2), (4, 1), (12, 1))
    ),
    _gradients("subnormal", lambda: uniform(7, 4, 12, scale=2.0**-130), lambda: uniform(8, 17, 12, scale=2.0**-130), 2),
    _gradients("subnormal_order_1", lambda: uniform(7, 4, 3, scale=2.0**-130), lambda: uniform(8, 17, 3, scale=2.0**-130), 1),
    _gradients("strided", lambda: uniform(1, 9, 8)[::2, ::2], lambda: uniform(2, 4, 18).t(), 1),
    _gradients("no_columns", lambda: uniform(1, 3, 0), lambda: uniform(2, 4, 0), 2),
    _gradients("no_rows", lambda: uniform(1, 0, 3), lambda: uniform(2, 4, 3), 2),
    _gradients("no_terms", lambda: uniform(1, 4, 3), lambda: uniform(2, 0, 3), 2),
    _gradients("no_batch", lambda: uniform(1, 0, 2, 3), lambda: uniform(2, 0, 4, 3), 2, 0),
]  # fmt: skip


CASES = [
    *(
        Case("vector_norm", _name(p), lambda p=p: (uniform(2, 5, 60, 7), p, [1], False), dtypes=EVERY)
        for p in (*PLAIN, 3.0, 0.5, -1.0, 2.5, -2.0, 4.0)
    ),
    *(
        Case("vector_norm", f"special_{_name(p)}", lambda p=p: (uniform(7, 60, 4, special=True), p, [1], False), dtypes=DOUBLE)
        for p in (*PLAIN, 3.0, -1.5)
    ),
    *(
        Case("vector_norm", f"zeros_{_name(p)}", lambda p=p: (torch.tensor([[0.0, -0.0], [0.0, 2.0]]), p, [1], True))
        for p in (*PLAIN, 3.0, -1.5)
    ),
    Case("vector_norm", "all", lambda: (uniform(2, 9, 10, 11), 2.0, [0, 1, 2], False), dtypes=EVERY),
    Case("vector_norm", "dims", lambda: (uniform(2, 9, 10, 11), 1.0, [0, 2], True)),
    Case("vector_norm", "subnormal", lambda: (uniform(8, 4, 200, scale=2.0**-66), 2.0, [1], False), dtypes=DOUBLE),
    Case("vector_norm", "strided", lambda: (uniform(5, 20, 40)[::3, 1::3], 2.0, [1], False), dtypes=EVERY),
    Case("vector_norm", "empty", lambda: (uniform(6, 0, 3), 2.0, [1], False), dtypes=EVERY),
    Case("vector_norm", "no_terms", lambda: (uniform(6, 3, 0), 3.0, [1], False)),
    *(case for op in ("cdist", "row_distances") for case in _distances(op)),
    *_GRADIENTS,
    *(Case("cdist", _name(p), lambda p=p: (uniform(1, 5, 9), uniform(2, 20, 9), p), dtypes=EVERY) for p in (0.0, INF, 3.0)),
    Case("cdist", "no_terms_inf", lambda: (uniform(1, 3, 0), uniform(2, 4, 0), INF)),
]  # fmt: skip
