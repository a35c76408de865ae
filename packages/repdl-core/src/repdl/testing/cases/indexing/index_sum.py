"""Cases of index_sum: numbers of terms around the lanes and the block, widths, layouts. Cases of the others: shapes, ties."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import floats, index, uniform

_EQUALS = floats(0, 1 << 31, 1 << 31, 0, 0x7FC00001, 0xFFC00000, 0xFFC00000, 0x7FC00001, 1 << 31, 0, 0, 1 << 31).view(
    6, 2
)
"""Zeros of both signs and two kinds of NaN."""


def _sum(n: int, width: int, size: int, **kind: Any) -> tuple[Any, ...]:
    return uniform(1, n, width, **kind), index(2, size, n), size


def _one_row(n: int, width: int) -> tuple[Any, ...]:
    """Terms of row 1 of three, every other one between terms of row 2."""
    at = torch.full((2 * n,), 2)
    at[::2] = 1
    return uniform(1, 2 * n, width), at, 3


def _cancelling() -> tuple[Any, ...]:
    # Terms 0, 64 and 128 of row 1 are one lane, wherever they lie: 2**25 meets 1 first, and the 1 is lost.
    at = torch.ones(200, dtype=torch.int64)
    at[1:199:40] = 0
    place = (at == 1).nonzero().flatten()
    x = torch.zeros(200, 1)
    x[place[0]], x[place[64]], x[place[128]] = 2.0**25, 1.0, -(2.0**25)
    return x, at, 2


def _rows(shape: tuple[int, ...], width: int, size: int, padding: int = -1, **kind: Any) -> tuple[Any, ...]:
    return uniform(1, size, width, **kind), index(2, size, *shape), padding, False


def _added(n: int, width: int, size: int, alpha: float = 1.0, **kind: Any) -> tuple[Any, ...]:
    return uniform(3, size, width, **kind), index(2, size, n), uniform(1, n, width, **kind), alpha


def _few(n: int, width: int, rows: int, apart: int, **kind: Any) -> tuple[Any, ...]:
    """Terms of so many rows of a table, which are so far apart."""
    return uniform(1, n, width, **kind), index(2, rows, n) * apart, rows * apart


def _few_added(n: int, width: int, rows: int, apart: int, alpha: float = 1.0, **kind: Any) -> tuple[Any, ...]:
    values, at, size = _few(n, width, rows, apart, **kind)
    return uniform(3, size, width, **kind), at, values, alpha


def _bags(
    bags: int, length: int, width: int, *, weighted: bool = False, padding: int = -1, mean: bool = False, **kind: Any
) -> tuple[Any, ...]:
    factors = uniform(3, bags * length, **kind) if weighted else None
    return uniform(1, 20, width, **kind), index(2, 20, bags * length), None, factors, length, padding, False, mean


def _uneven(begins: list[int], weighted: bool, padding: int, mean: bool) -> tuple[Any, ...]:
    factors = uniform(3, begins[-1]) if weighted else None
    return uniform(1, 20, 5), index(2, 20, begins[-1]), torch.tensor(begins), factors, 0, padding, False, mean


CASES = [
    *(
        Case(
            "bag_sum",
            f"terms_{n}",
            lambda n=n: _bags(3, n, 5, weighted=n % 2 == 1),
            dtypes=DOUBLE if n in (17, 65) else (),
        )
        for n in (1, 2, 16, 17, 64, 65, 66, 1100, 1101)
    ),
    *(Case("bag_sum", f"width_{d}", lambda d=d: _bags(40, 4, d, weighted=True)) for d in (1, 15, 16, 33)),
    *(
        Case(
            "bag_sum",
            f"uneven{'_weighted' * weighted}{'_mean' * mean}",
            lambda weighted=weighted, mean=mean: _uneven([0, 3, 3, 70, 77], weighted, 4, mean),
            dtypes=EVERY,
        )
        for weighted in (False, True)
        for mean in (False, True)
    ),
    Case("bag_sum", "mean", lambda: _bags(9, 7, 5, mean=True), dtypes=EVERY),
    Case("bag_sum", "padding", lambda: _bags(9, 7, 5, padding=3, weighted=True), dtypes=EVERY),
    Case("bag_sum", "special", lambda: _bags(60, 3, 5, weighted=True, special=True), dtypes=EVERY),
    Case("bag_sum", "subnormal", lambda: _bags(9, 7, 5, weighted=True, scale=2.0**-70), dtypes=DOUBLE),
    Case(
        "bag_sum",
        "negative_zeros",
        lambda: (torch.full((5, 3), -0.0), torch.arange(4), None, None, 1, -1, False, False),
    ),
    Case(
        "bag_sum",
        "strided",
        lambda: (uniform(1, 10, 20).t(), index(2, 20, 24)[::2], None, uniform(3, 24)[::2], 4, -1, False, False),
    ),
    Case("index_amax", "first_of_equal", lambda: (_EQUALS, torch.tensor([0, 0, 2, 2, 1, 1]), 3), dtypes=DOUBLE),
    Case("bag_sum", "no_bags", lambda: _bags(0, 3, 5)),
    Case(
        "bag_sum",
        "empty_bags",
        lambda: (
            uniform(1, 4, 3),
            torch.zeros(0, dtype=torch.int64),
            torch.zeros(3, dtype=torch.int64),
            None,
            0,
            -1,
            False,
            True,
        ),
    ),
    *(
        Case("index_sum", f"terms_{n}", lambda n=n: _one_row(n, 3), dtypes=DOUBLE if n in (65, 1025) else ())
        for n in (1, 2, 63, 64, 65, 255, 257, 1023, 1024, 1025, 2049, 3100)
    ),
    *(
        Case("index_sum", f"width_{d}", lambda d=d: _sum(150, d, 7), dtypes=EVERY if d in (1, 65) else ())
        for d in (1, 4, 16, 31, 32, 33, 64, 65, 130)
    ),
    Case("index_sum", "wide", lambda: _sum(12, 4200, 3)),
    Case("index_sum", "all_equal", lambda: (uniform(1, 1300, 5), torch.full((1300,), 2), 4), dtypes=EVERY),
    Case("index_sum", "all_different", lambda: (uniform(1, 40, 5), torch.arange(39, -1, -1), 41), dtypes=DOUBLE),
    Case("index_sum", "many_rows", lambda: _sum(500, 2, 3000)),
    Case("index_sum", "special", lambda: _sum(300, 9, 40, special=True), dtypes=EVERY),
    Case("index_sum", "subnormal", lambda: _sum(300, 9, 4, scale=2.0**-140), dtypes=DOUBLE),
    Case("index_sum", "negative_zeros", lambda: (torch.full((5, 3), -0.0), torch.tensor([1, 1, 1, 1, 2]), 4)),
    Case("index_sum", "overflow", lambda: (torch.full((130, 3), 3e38), torch.arange(130) % 2, 2), dtypes=DOUBLE),
    Case("index_sum", "transposed", lambda: (uniform(1, 9, 140).t(), index(2, 5, 280)[::2], 5), dtypes=EVERY),
    Case("index_sum", "expanded", lambda: (uniform(1, 1, 9).expand(140, 9), index(2, 5, 140), 5)),
    Case("index_sum", "no_terms", lambda: _sum(0, 3, 4), dtypes=EVERY),
    Case("index_sum", "no_columns", lambda: _sum(6, 0, 4)),
    Case("index_sum", "no_rows", lambda: (uniform(1, 0, 3), torch.zeros(0, dtype=torch.int64), 0)),
    Case("index_sum", "lanes_not_reordered", _cancelling),
    Case("embedding", "flat", lambda: _rows((30,), 7, 11), dtypes=EVERY),
    Case("embedding", "batch", lambda: _rows((3, 5, 2), 16, 11, 4), dtypes=EVERY),
    Case("embedding", "one", lambda: _rows((), 9, 11)),
    Case("embedding", "long", lambda: _rows((900,), 70, 11), dtypes=DOUBLE),
    Case("embedding", "special", lambda: _rows((60,), 9, 11, special=True), dtypes=EVERY),
    Case("embedding", "transposed", lambda: (uniform(1, 7, 11).t(), index(2, 11, 5, 4).t(), -1, False), dtypes=EVERY),
    Case("embedding", "no_indices", lambda: _rows((0, 3), 7, 11), dtypes=EVERY),
    Case("embedding", "no_columns", lambda: _rows((4,), 0, 11)),
    Case("embedding", "no_rows", lambda: (uniform(1, 0, 3), torch.zeros(2, 0, dtype=torch.int64), -1, False)),
    *(
        case
        for op in ("index_amax", "index_prod")
        for case in (
            Case(op, "special", lambda: _sum(120, 5, 9, special=True), dtypes=EVERY),
            Case(op, "ties", lambda: ((uniform(1, 90, 4) * 3).round(), index(2, 5, 90), 7), dtypes=DOUBLE),
            Case(op, "all_equal", lambda: (1 + uniform(1, 77, 5) / 8, torch.full((77,), 2), 4)),
            Case(op, "transposed", lambda: (uniform(1, 9, 40).t(), index(2, 5, 80)[::2], 5), dtypes=DOUBLE),
            Case(op, "subnormal", lambda: (uniform(1, 3, 4, scale=2.0**-130), torch.tensor([2, 0, 3]), 5)),
            Case(op, "no_terms", lambda: _sum(0, 3, 4), dtypes=EVERY),
            Case(op, "no_rows", lambda: (uniform(1, 0, 3), torch.zeros(0, dtype=torch.int64), 0)),
        )
    ),
    *(
        Case("add_index_sum", f"width_{d}", lambda d=d: _added(150, d, 40), dtypes=EVERY if d in (1, 16) else ())
        for d in (1, 2, 15, 16, 33, 130)
    ),
    *(
        Case("add_index_sum", f"terms_of_width_{d}", lambda d=d: _added(5000, d, 30), dtypes=DOUBLE if d == 1 else ())
        for d in (1, 3, 20)
    ),
    Case("add_index_sum", "many_rows", lambda: _added(1500, 1, 3000), dtypes=DOUBLE),
    Case("add_index_sum", "alpha", lambda: _added(70, 1, 40, -0.3), dtypes=EVERY),
    Case("add_index_sum", "alpha_of_rows", lambda: _added(70, 20, 40, 2.5), dtypes=DOUBLE),
    Case("add_index_sum", "special", lambda: _added(60, 1, 50, special=True), dtypes=EVERY),
    Case("add_index_sum", "special_rows", lambda: _added(60, 18, 50, -1.5, special=True), dtypes=DOUBLE),
    Case("add_index_sum", "minus_zero", lambda: (torch.full((5, 1), -0.0), index(2, 3, 4), torch.zeros(4, 1), -2.0)),
    Case(
        "add_index_sum", "minus_zero_stays", lambda: (torch.full((9, 1), -0.0), index(2, 3, 4), torch.zeros(4, 1), 1.0)
    ),
    Case("add_index_sum", "subnormal", lambda: _added(60, 3, 20, scale=2.0**-130), dtypes=DOUBLE),
    Case("add_index_sum", "strided", lambda: (uniform(3, 4, 7).t(), index(2, 7, 30), uniform(1, 4, 30).t(), 1.0)),
    Case("add_index_sum", "no_terms", lambda: _added(0, 3, 20), dtypes=EVERY),
    Case("add_index_sum", "no_rows", lambda: (uniform(3, 0, 2), index(2, 1, 0), uniform(1, 0, 2), 1.0)),
    *(Case("index_sum", f"few_of_width_{d}", lambda d=d: _few(600, d, 9, 563), dtypes=DOUBLE) for d in (1, 3, 7, 15)),
    *(
        Case("index_sum", f"few_blocks_of_width_{d}", lambda d=d: _few(2500, d, 2, 10007), dtypes=DOUBLE)
        for d in (1, 3)
    ),
    Case("index_sum", "few_in_many_rows", lambda: _few(1500, 1, 3000, 5), dtypes=DOUBLE),
    Case("index_sum", "few_special", lambda: _few(100, 3, 40, 111, special=True), dtypes=EVERY),
    Case("add_index_sum", "few", lambda: _few_added(600, 1, 9, 563), dtypes=DOUBLE),
    Case("add_index_sum", "few_alpha", lambda: _few_added(250, 3, 7, 700, -0.3), dtypes=EVERY),
    Case("add_index_sum", "few_special", lambda: _few_added(90, 1, 40, 111, special=True), dtypes=EVERY),
    Case("index_sum", "narrow_many_terms", lambda: _sum(5000, 1, 3), dtypes=DOUBLE),
    Case("index_sum", "narrow_special", lambda: _sum(300, 1, 100, special=True), dtypes=EVERY),
]
