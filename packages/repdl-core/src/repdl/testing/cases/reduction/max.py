"""Cases of max: ties, zeros of both signs, NaN, every dimension, layouts."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import floats, uniform

NAN, INF = float("nan"), float("inf")
ROWS = [
    [1.0, 3.0, 3.0, 2.0],
    [-0.0, 0.0, -1.0, 0.0],
    [0.0, -0.0, 0.0, -1.0],
    [NAN, 1.0, INF, NAN],
    [1.0, INF, NAN, NAN],
    [-INF, -INF, -INF, -INF],
    [INF, 1.0, INF, 2.0],
    [1e-45, 0.0, -1e-45, 1e-45],
]


def _backward(x: torch.Tensor, grad: float = 0.7) -> tuple[torch.Tensor, ...]:
    return torch.tensor(grad), x, torch.ops.aten.max(x)


def _rows_backward(x: torch.Tensor, scale: float = 1.0) -> tuple[torch.Tensor, ...]:
    return uniform(9, *x.shape[:-1]) * scale, x, torch.ops.aten.amax(x, -1)


_KINDS_OF_NAN = floats(0x7FC00001, 0x3F800000, 0xFFC00002, 1 << 31, 0, 0x7F800000, 0xFF800000, 0x7FC00003).view(1, 8)

CASES = [
    *(Case("max", f"row_{i}", lambda row=row: (torch.tensor(row),)) for i, row in enumerate(ROWS)),
    *(
        Case("max", f"size_{n}", lambda n=n: (uniform(1, n),), dtypes=DOUBLE if n == 65 else ())
        for n in (1, 2, 15, 16, 17, 64, 65, 1000, 5000)
    ),
    Case("max", "dim_0", lambda: (torch.tensor(-2.0),), dtypes=DOUBLE),
    Case("max", "permuted", lambda: (uniform(2, 5, 6, 7).permute(2, 0, 1),), dtypes=DOUBLE),
    Case("max", "strided", lambda: (uniform(2, 30, 9)[::2, 1::3],), dtypes=EVERY),
    *(Case("max_backward", f"row_{i}", lambda row=row: _backward(torch.tensor(row))) for i, row in enumerate(ROWS)),
    Case("max_backward", "values", lambda: _backward(uniform(1, 7, 9)), dtypes=EVERY),
    Case("max_backward", "grad_subnormal", lambda: _backward(uniform(1, 7, 9), 2.0**-140)),
    Case("max_backward", "grad_nan", lambda: _backward(uniform(1, 7, 9), NAN)),
    Case("max_backward", "three_ties", lambda: _backward(torch.ones(3).expand(4, 3)), dtypes=EVERY),
    Case("max_backward", "transposed", lambda: _backward(uniform(1, 7, 9).t()), dtypes=EVERY),
    Case("max_dim", "rows", lambda: (torch.tensor(ROWS), 1, False), dtypes=EVERY),
    Case("max_dim", "columns", lambda: (torch.tensor(ROWS).t(), 0, False), dtypes=EVERY),
    *(
        Case("max_dim", f"dim{d}{'_keep' * k}", lambda d=d, k=k: (uniform(3, 3, 40, 5), d, k))
        for d in range(3)
        for k in (False, True)
    ),
    Case("max_dim", "long", lambda: (uniform(4, 3, 1500, special=True), 1, False)),
    Case("max_dim", "size_1", lambda: (uniform(4, 3, 1), 1, False)),
    Case("max_dim", "dim_0", lambda: (torch.tensor(3.0), 0, True), dtypes=DOUBLE),
    Case("max_dim", "empty", lambda: (uniform(4, 0, 3), 1, False), dtypes=EVERY),
    Case("max_dim", "strided", lambda: (uniform(5, 30, 9)[::2, 1::3], 0, False), dtypes=EVERY),
    Case("max_dim", "expanded", lambda: (uniform(5, 1, 9).expand(4, 9), 0, False), dtypes=DOUBLE),
    Case("amax", "rows", lambda: (torch.tensor(ROWS),), dtypes=EVERY),
    *(
        Case("amax", f"size_{n}", lambda n=n: (uniform(1, 3, n),), dtypes=DOUBLE if n == 65 else ())
        for n in (1, 15, 16, 63, 64, 65, 4095, 4096, 4097, 9000)
    ),
    Case("amax", "one_row", lambda: (uniform(2, 700, special=True),)),
    Case("amax", "strided", lambda: (uniform(5, 30, 9)[::2, 1::3],), dtypes=EVERY),
    Case("amax", "columns", lambda: (torch.tensor(ROWS).t().contiguous().t(),), dtypes=EVERY),
    Case("amax", "many_columns", lambda: (uniform(5, 40, 1100, special=True).t(),), dtypes=DOUBLE),
    Case("amax", "columns_of_images", lambda: (uniform(5, 3, 70, 9, special=True).transpose(1, 2),), dtypes=EVERY),
    Case("amax", "sliced_columns", lambda: (uniform(5, 20, 30)[1::2, 3:22].t(),)),
    Case("amax", "expanded", lambda: (uniform(5, 6, 1).expand(6, 9),)),
    Case("amax", "permuted", lambda: (uniform(2, 5, 6, 7).permute(2, 0, 1),), dtypes=DOUBLE),
    Case("amax", "empty", lambda: (uniform(4, 0, 3),), dtypes=EVERY),
    Case("amax", "no_rows_of_none", lambda: (uniform(4, 2, 0, 0),)),
    Case("amax_backward", "rows", lambda: _rows_backward(torch.tensor(ROWS)), dtypes=EVERY),
    Case("amax_backward", "values", lambda: _rows_backward(uniform(1, 7, 9)), dtypes=EVERY),
    Case("amax_backward", "long", lambda: _rows_backward(uniform(1, 3, 9000))),
    Case("amax_backward", "ties", lambda: _rows_backward(torch.ones(4, 3, 7)), dtypes=DOUBLE),
    Case("amax_backward", "grad_subnormal", lambda: _rows_backward(torch.ones(7, 3), 2.0**-140)),
    Case("amax_backward", "grad_nan", lambda: _rows_backward(torch.ones(7, 3), torch.nan)),
    Case("amax_backward", "transposed", lambda: _rows_backward(uniform(1, 7, 9).t()), dtypes=EVERY),
    Case("amax_backward", "empty", lambda: (uniform(1, 0), uniform(4, 0, 3), uniform(1, 0)), dtypes=EVERY),
    *(
        Case(
            "sort",
            f"{'down' if down else 'up'}_{first}_{count}",
            lambda down=down, first=first, count=count: (torch.tensor(ROWS), down, first, count),
            dtypes=EVERY,
        )
        for down in (False, True)
        for first, count in ((0, 4), (0, 2), (1, 2), (3, 1), (2, 0))
    ),
    *(
        Case(
            "sort",
            f"of_{n}_{first}_{count}",
            lambda n=n, first=first, count=count: (uniform(1, 3, n), n % 2 == 0, first, count),
            dtypes=DOUBLE,
        )
        for n, first, count in (
            (1, 0, 1),
            (70, 0, 5),
            (70, 3, 67),
            (200, 0, 64),
            (200, 0, 65),
            (201, 100, 1),
            (300, 0, 300),
            (300, 60, 4),
        )
    ),
    Case("sort", "ties", lambda: ((uniform(1, 2, 500) * 4).round(), True, 0, 90), dtypes=DOUBLE),
    Case("sort", "few_ties", lambda: ((uniform(1, 2, 500) * 4).round(), False, 0, 50), dtypes=DOUBLE),
    Case("sort", "kinds_of_nan", lambda: (_KINDS_OF_NAN, True, 0, 8), dtypes=DOUBLE),
    Case("sort", "transposed", lambda: (uniform(1, 9, 40).t(), False, 0, 9), dtypes=EVERY),
    Case("sort", "expanded", lambda: (uniform(1, 1, 9).expand(4, 9), False, 1, 3)),
    Case("sort", "no_rows", lambda: (uniform(1, 0, 3), False, 0, 2)),
    Case("sort", "no_elements", lambda: (uniform(1, 3, 0), False, 0, 0)),
]
