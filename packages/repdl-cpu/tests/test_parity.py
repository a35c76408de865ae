"""The parity suite on every ISA and with several numbers of threads.

The cross product is cut where axes do not meet: under v1 the best ISA with the threads that are set, with 1 and with 7,
the others with 3; under the other contracts the best one with 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import pytest
import torch

import repdl
import repdl_cpu
from repdl.testing import ODD_CONTRACTS, Case, cases, uniform
from repdl.testing.dtypes import convert
from repdl.testing.parity import ParityTests, check_settings

ISAS = repdl_cpu.supported_isas()


@contextmanager
def running(isa: str, threads: int) -> Iterator[str]:
    """On an ISA, with a number of threads."""
    before = repdl.settings.threads.state.threads
    repdl.set_num_threads(threads)
    try:
        with repdl_cpu.use_isa(isa):
            yield f"{isa} with {threads} threads"
    finally:
        repdl.settings.threads.state.threads = before


BEST = repdl_cpu.get_isa()
OTHERS = [partial(running, isa, 3) for isa in ISAS if isa != BEST]
EVERYWHERE = [partial(running, isa, threads) for isa in ISAS for threads in (1, 3)]


class TestCpu(ParityTests):
    backend = "cpu"
    settings = [nullcontext, partial(running, BEST, 1), partial(running, BEST, 7), *OTHERS]
    for_contracts = [partial(running, BEST, 3)]
    whole = False  # the class below is


@pytest.mark.nightly
class TestCpuEverywhere(ParityTests):
    """With more threads on every ISA, and under the other contracts with other threads."""

    backend = "cpu"
    settings = [*EVERYWHERE, partial(running, BEST, 2)]
    for_contracts = [nullcontext, partial(running, BEST, 1)]


PRODUCTS = {"matmul", "linear", "conv2d", "conv2d_grad_input", "conv2d_grad_weight"}
DOUBLE_PRODUCTS = [case for case in cases() if case.op in PRODUCTS and not case.derived]
"""All in float64: the kernels are others than the float32 ones, and few cases are derived in it."""


BEYOND_BLOCKS = [
    Case("matmul", "blocks", lambda: (uniform(1, 227, 3), uniform(2, 3, 517), False, False)),
    Case("linear", "long", lambda: (uniform(1, 3, 2300), uniform(2, 5, 2300), uniform(3, 5))),
    Case("matmul", "shared columns", lambda: (uniform(1, 203, 530), uniform(2, 20, 530), False, True)),
    Case("matmul", "deep", lambda: (uniform(1, 4100, 193), uniform(2, 4100, 9), True, False)),
    Case("matmul", "one row", lambda: (uniform(1, 1, 300), uniform(2, 77, 300), False, True)),
    Case("matmul", "blocks of a batch", lambda: (uniform(1, 3, 203, 40), uniform(2, 3, 40, 20), False, False)),
    Case("matmul", "two rows", lambda: (uniform(1, 2, 300), uniform(2, 300, 77), False, False)),
]
"""Several blocks of rows and columns, which share packed columns or don't, of one product or of several, and several
pieces of a chain."""


@pytest.mark.parametrize(
    ("case", "contracts"),
    [(case, ODD_CONTRACTS[:1]) for case in DOUBLE_PRODUCTS]
    + [(case, ("v1", "sequential", ODD_CONTRACTS[1])) for case in BEYOND_BLOCKS],
    ids=str,
)
def test_parity__double_products(case: Case, contracts: Sequence[str]) -> None:
    args = convert(case.op, case.make(), torch.float64)
    for contract in contracts:
        check_settings(replace(case, make=lambda: args), "cpu", contract, EVERYWHERE)


def depthwise(columns: int) -> Case:
    args = partial(uniform, 1, 2, 3, 4, columns), partial(uniform, 2, 3, 1, 3, 3), partial(uniform, 3, 3)
    return Case("conv2d", f"rows of {columns}", lambda: (*(make() for make in args), [1, 1], [1, 1], [1, 1], 3))


def few_columns(channels: int, filters: int, kh: int, kw: int) -> Case:
    image, grad = partial(uniform, 1, 3, channels, 12, 14), partial(uniform, 2, 3, filters, 13 - kh, 15 - kw)
    return Case(
        "conv2d_grad_weight", f"{channels} to {filters} by {kh} x {kw}",
        lambda: (grad(), image(), [kh, kw], [1, 1], [0, 0], [1, 1], 1),
    )  # fmt: skip


SMALL_TILES = [
    *map(depthwise, (6, 64, 150)),
    *(few_columns(*shape) for shape in ((1, 7, 8, 6), (2, 5, 2, 9), (4, 4, 3, 3), (3, 6, 2, 5))),
]
"""Tiles with other numbers of vectors and rows, on each ISA, than the cases have."""


@pytest.mark.parametrize("case", SMALL_TILES, ids=str)
def test_parity__small_tiles(case: Case) -> None:
    for contract in ("v1", "sequential", "dot_chunk=4,sum_lanes=64,sum_block=1024"):
        check_settings(case, "cpu", contract, EVERYWHERE)
