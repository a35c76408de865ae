"""Cases of sum: lengths around the lanes and the block, every choice of dims, layouts. Cases of what is made of it."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform


def _cancelling() -> tuple[Any, ...]:
    # In lane order 2**25 meets 1 first, and the 1 is lost; any other order finds it again.
    x = torch.zeros(1, 192)
    x[0, 0], x[0, 64], x[0, 128] = 2.0**25, 1.0, -(2.0**25)
    return x, [1], False


def _blocks() -> tuple[Any, ...]:
    # One large element in each of three blocks: (a + b) + c by the tree.
    x = torch.zeros(3072)
    x[0], x[1024], x[2048] = 2.0**25, 1.0, -(2.0**25)
    return x, [0], False


CASES = [
    *(
        Case(
            "sum",
            f"row_{n}",
            lambda n=n: (uniform(1, 2, n), [1], False),
            dtypes={65: DOUBLE, 1025: EVERY, 5000: DOUBLE}.get(n, ()),
        )
        for n in (0, 1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 500, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 5000)
    ),
    *(
        Case("sum", f"column_{n}", lambda n=n: (uniform(1, n, 3), [0], False), dtypes=DOUBLE if n == 65 else ())
        for n in (0, 1, 5, 63, 64, 65, 1023, 1024, 1025, 3100)
    ),
    *(
        Case(
            "sum",
            f"columns_{c}",
            lambda c=c: (uniform(1, 130, c), [0], True),
            dtypes=DOUBLE if c in (10, 130) else (),
        )
        for c in (1, 4, 10, 64, 65, 130)
    ),
    *(
        Case(
            "sum",
            f"dims_{'_'.join(map(str, dims))}",
            lambda dims=dims: (uniform(2, 3, 4, 5, 6), list(dims), False),
            dtypes=DOUBLE if dims == (0, 2) else (),
        )
        for dims in [
            (0,),
            (1,),
            (2,),
            (3,),
            (0, 1),
            (0, 2),
            (0, 3),
            (1, 2),
            (1, 3),
            (2, 3),
            (0, 1, 2),
            (0, 2, 3),
            (1, 2, 3),
            (0, 1, 2, 3),
        ]
    ),
    Case("sum", "row_13500", lambda: (uniform(1, 1, 13500), [1], False)),
    Case("sum", "rows_9x2100", lambda: (uniform(1, 9, 2100), [1], False)),
    Case("sum", "rows_6x70", lambda: (uniform(1, 6, 70), [1], False)),
    Case("sum", "rows_5000x3", lambda: (uniform(1, 5000, 3), [1], False), dtypes=DOUBLE),
    Case("sum", "columns_2200x70", lambda: (uniform(1, 2200, 70), [0], False)),
    Case("sum", "columns_3x4200", lambda: (uniform(1, 3, 4200), [0], False)),
    Case("sum", "no_dim", lambda: (uniform(1, 3, 4, special=True), [], False)),
    Case("sum", "no_dim_0d", lambda: (torch.tensor(-0.0), [], False)),
    Case("sum", "keepdim", lambda: (uniform(1, 3, 4, 5), [0, 2], True), dtypes=DOUBLE),
    Case("sum", "channels", lambda: (uniform(1, 4, 3, 300), [0, 2], False), dtypes=DOUBLE),
    Case("sum", "all_of_three_blocks", lambda: (uniform(3, 5, 7, 90), [0, 1, 2], False), dtypes=DOUBLE),
    Case("sum", "permuted_all", lambda: (uniform(3, 5, 7, 90).permute(2, 0, 1), [0, 1, 2], False)),
    Case("sum", "permuted", lambda: (uniform(3, 20, 7, 9).permute(2, 0, 1), [0, 1], False), dtypes=DOUBLE),
    Case("sum", "transposed_rows", lambda: (uniform(4, 1100, 9).t(), [1], False)),
    Case("sum", "transposed_columns", lambda: (uniform(4, 9, 1100).t(), [0], False)),
    Case("sum", "strided", lambda: (uniform(5, 20, 400)[::3, 1::3], [1], False), dtypes=EVERY),
    Case("sum", "strided_columns", lambda: (uniform(5, 400, 20)[::3, 1::2], [0], False)),
    Case("sum", "sliced_columns", lambda: (uniform(5, 400, 40)[:, 3:25], [0], False)),
    Case("sum", "expanded_reduced", lambda: (uniform(6, 5, 1).expand(5, 100), [1], False)),
    Case("sum", "expanded_kept", lambda: (uniform(6, 1, 100).expand(5, 100), [1], False)),
    Case("sum", "expanded_leading", lambda: (uniform(6, 1, 70).expand(70, 70), [0], False)),
    Case("sum", "kept_empty", lambda: (uniform(6, 0, 3), [1], False)),
    Case("sum", "kept_and_reduced_empty", lambda: (uniform(6, 0, 0), [1], False)),
    Case("sum", "special", lambda: (uniform(7, 60, 9, special=True), [1], False), dtypes=EVERY),
    Case("sum", "special_columns", lambda: (uniform(7, 9, 60, special=True), [0], False)),
    Case("sum", "subnormal", lambda: (uniform(8, 4, 200, scale=2.0**-140), [1], False), dtypes=DOUBLE),
    Case("sum", "few_negative_zeros", lambda: (torch.full((3, 64), -0.0), [1], False), dtypes=DOUBLE),
    Case("sum", "negative_zeros", lambda: (torch.full((3, 65), -0.0), [1], False)),
    Case(
        "sum",
        "overflow",
        lambda: (torch.full((2, 130), 3e38) * torch.tensor([[1.0], [-1.0]]), [1], False),
        dtypes=DOUBLE,
    ),
    Case("sum", "lanes_not_reordered", _cancelling),
    Case("sum", "blocks_not_reordered", _blocks),
    *(Case("mean", f"row_{n}", lambda n=n: (uniform(1, 2, n), [1], False)) for n in (0, 1, 3, 7, 1024, 5000)),
    *(
        Case("mean", f"dims_{''.join(map(str, d))}", lambda d=d: (uniform(2, 9, 10, 11), list(d), True), dtypes=EVERY)
        for d in ((), (1,), (0, 2), (0, 1, 2))
    ),
    Case("mean", "special", lambda: (uniform(7, 60, 9, special=True), [1], False), dtypes=EVERY),
    Case("mean", "strided", lambda: (uniform(5, 20, 400)[::3, 1::3], [1], False), dtypes=EVERY),
    Case("mean", "empty", lambda: (uniform(6, 0, 3), [1], False), dtypes=EVERY),
    Case("mean", "no_dim_0d", lambda: (torch.tensor(-0.0), [], False)),
    Case("mean", "subnormal", lambda: (uniform(8, 4, 200, scale=2.0**-140), [1], False), dtypes=DOUBLE),
    Case("mean", "overflow", lambda: (torch.full((2, 130), 3e38), [1], False)),
    # A sum of 5 over 41 elements: not 5 times the rounded 1 / 41.
    Case(
        "mean",
        "not_by_reciprocal",
        lambda: (torch.cat([torch.arange(100.0)[:, None], torch.zeros(100, 40)], 1), [1], False),
    ),
]

_SQUARED = (
    *(f"row_{n}" for n in (0, 1, 65, 1024, 1025, 5000, 13500)),
    *("column_65", "column_1025", "column_3100", "columns_4", "columns_130", "columns_2200x70", "columns_3x4200"),
    *(
        "rows_9x2100",
        "rows_5000x3",
        "row_63",
        "row_64",
        "dims_0_2",
        "dims_1_3",
        "dims_0_1_2_3",
        "keepdim",
        "no_dim",
        "no_dim_0d",
        "all_of_three_blocks",
    ),
    *("permuted_all", "permuted", "transposed_rows", "transposed_columns", "strided", "strided_columns"),
    *("sliced_columns", "expanded_kept", "kept_empty", "special", "special_columns", "negative_zeros", "overflow"),
)
_OF_SUM = {case.name: case for case in CASES if case.op == "sum"}
CASES += [
    *(Case("sum_of_squares", name, _OF_SUM[name].make, dtypes=_OF_SUM[name].dtypes) for name in _SQUARED),
    Case("sum_of_squares", "row_40000", lambda: (uniform(1, 1, 40000), [1], False), dtypes=DOUBLE),
    Case("sum_of_squares", "subnormal", lambda: (uniform(8, 4, 200, scale=2.0**-66), [1], False), dtypes=DOUBLE),
    Case("sum_of_squares", "subnormal_columns", lambda: (uniform(8, 200, 5, scale=2.0**-66), [0], False)),
]
