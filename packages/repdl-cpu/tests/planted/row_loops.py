"""Loops of test_routes.py over rows that are summed or scanned, and what all its loops compare by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

import repdl
import repdl_cpu
from repdl.registry import implementation
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits, uniform
from repdl.testing.dtypes import in_dtype

SPECIAL = torch.tensor([0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 1, 0], dtype=torch.uint32).view(torch.float32)
"""A NaN with a sign and a payload, infinities, zeros, a subnormal."""


@contextmanager
def running(isa: str, threads: int) -> Iterator[None]:
    before = repdl.settings.threads.state.threads
    repdl.set_num_threads(threads)
    try:
        with repdl_cpu.use_isa(isa):
            yield
    finally:
        repdl.settings.threads.state.threads = before


def on(backend: str, op: str, *args: Any) -> Any:
    return implementation(get_backend(backend), op)(*args)


def check(op: str, args: Sequence[Any], expected: torch.Tensor, what: str) -> None:
    assert_same_bits(on("cpu", op, *args), expected.contiguous(), f"{op} {what}")


def rows_of_elements() -> None:
    """Rows of one element, of which eight are summed at once while each has as many terms as there are lanes."""
    for contract in ("v1", "sequential", "dot_chunk=10,sum_lanes=16,sum_block=48"):
        for most in (1, 8, 9, 16, 17, 32, 33, 64, 65):
            counts = torch.tensor([(most - 3 * k) % (most + 1) for k in range(21)])
            rows, n = torch.arange(21).repeat_interleave(counts), int(counts.sum())
            x = uniform(1, n, 1)
            x.view(-1)[::37] = SPECIAL[torch.arange(0, n, 37) % len(SPECIAL)]
            for values in (x, torch.full_like(x, -0.0)):
                args = values, rows[torch.arange(n) * 7919 % n], 21, contract
                check("index_sum", args, on("reference", "index_sum", *args), f"up to {most} terms {contract}")


FEW_TERMS = [
    *((9, [1, 1, 1]), (9, [2, 1, 2]), (9, [4, 3, 2]), (40, [5, *[1] * 12]), (40, [6, 5, *[2] * 8])),
    *((99, [2]), (99, [3, *[1] * 9]), (200, [4, 3, *[1] * 16]), (9, [9]), (200, [20])),
]
"""Rows, and the terms of those that have some: one lane a row, two; rows of more than lanes take; too many of them."""


def elements_of_few_terms() -> None:
    """Rows of one element that are summed without a sort."""
    for contract in ("v1", "sequential", "dot_chunk=10,sum_lanes=8,sum_block=8"):
        for seed, (rows, counts) in enumerate(FEW_TERMS * 2):
            n = sum(counts)
            index = (torch.arange(len(counts)) * 3 % rows).repeat_interleave(torch.tensor(counts))
            index, given = index[torch.arange(n) * 7919 % n], uniform(99, rows, 1)
            x = uniform(seed, n, 1) / 3 ** (1 + torch.arange(n) % 4)[:, None]  # sums of multiples are exact
            special = x.clone()
            special[::3, 0] = SPECIAL[torch.arange(0, n, 3) % len(SPECIAL)]
            for values in (x, special, torch.full_like(x, -0.0), x.double() / 3):
                for op, *args in (
                    ("index_sum", values, index, rows, contract),
                    ("add_index_sum", given.to(values), index, values, 1.0, contract),
                    ("add_index_sum", given.to(values) * 0, index, values, -0.3, contract),
                ):
                    check(op, args, on("reference", op, *args), f"up to {max(counts)} terms in {rows} rows {contract}")


def scans() -> None:
    """Rows behind one another in memory, several at once and those that are left, some of several blocks; columns."""
    for n in (1, 2, 63, 64, 65, 130, 1024, 1025, 2100):
        x, factor = uniform(1, 7, n), uniform(2, 7, n).add(1)
        for values in (x, x.clone().index_fill(1, torch.tensor([n // 2]), float("inf")), torch.full_like(x, -0.0)):
            values.view(-1)[3::331] = SPECIAL[torch.arange(len(values.view(-1)[3::331])) % len(SPECIAL)]
            for op, *args in (("cumsum", 1, "v1"), ("cumsum", 1, "sequential"), ("linear_scan", 1)):
                given = (values,) if op == "cumsum" else (factor, values)
                expected = on("reference", op, *given, *args)
                for rows in (1, 3, 4, 7):
                    check(op, (*(t[:rows] for t in given), *args), expected[:rows], f"of {rows} rows of {n}")
                columns = *(t.t().contiguous() for t in given), 0, *args[1:]
                check(op, columns, expected.t(), f"of columns of {n}")


SHORT_ROWS = [
    *(((300, 5), (300, 1)), ((300, 5), (5,)), ((7, 1), (1, 6)), ((40, 3, 5), (40, 1, 5)), ((40, 3, 5), (40, 3, 1))),
    *(((6, 50, 7), (6, 1, 1)), ((6, 50, 7), (50, 1)), ((3, 1, 4, 5), (1, 9, 1, 5)), ((2, 3, 1, 3, 2), (3, 7, 1, 2))),
    ((1200, 2), (1, 2)),
]
"""Shapes that broadcast to rows that are shorter than a block of copies."""


def short_rows() -> None:
    """Several rows at a time, of operands that are repeated in every one, move along, or have gaps."""
    for seed, (first, second) in enumerate(SHORT_ROWS):
        for dtype in (torch.float32, torch.float64):
            x = in_dtype(uniform(2 * seed, *first, special=True), dtype)
            y = in_dtype(uniform(2 * seed + 1, *second, special=True), dtype)
            gaps = in_dtype(uniform(seed, *first[:-1], 2 * first[-1]), dtype)[..., ::2]
            for a, b in ((x, y), (y, x), (gaps, y), (gaps.movedim(0, -2), x.movedim(0, -2) / 3)):
                what = f"{tuple(a.shape)} {tuple(b.shape)} {dtype}"
                check("sub", (a, b, "v1"), on("reference", "sub", a, b, "v1"), what)
                check("where", (b > 0, a, b, "v1"), on("reference", "where", b > 0, a, b, "v1"), what)
