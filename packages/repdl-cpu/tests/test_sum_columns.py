"""Sums of rows, over leading dimensions or of an index: numbers of rows around the lanes and ends of vectors."""

from __future__ import annotations

import pytest
import torch

import repdl_cpu
from repdl.registry import implementations
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits, uniform

REFERENCE, CPU = (implementations(get_backend(name)) for name in ("reference", "cpu"))
ROWS = (*range(1, 18), 31, 32, 33, 63, 64, 65, 127, 128, 129, 192, 511, 512, 513)
COLUMNS = (8, 15, 16, 17, 31, 64, 70)


def compared(x: torch.Tensor, *arguments: object, op: str = "sum") -> None:
    for contract in ("v1", "sequential"):
        expected = REFERENCE[op](x, *arguments, contract)
        for isa in repdl_cpu.supported_isas():
            with repdl_cpu.use_isa(isa):
                what = f"{op} of {tuple(x.shape)}, strides {x.stride()}, {contract}, {x.dtype}, {isa}"
                assert_same_bits(CPU[op](x, *arguments, contract), expected, what)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sum_columns__rows(dtype: torch.dtype) -> None:
    for rows in ROWS:
        columns = COLUMNS[rows % len(COLUMNS)]
        compared(uniform(1, rows, columns, special=rows % 3 == 0).to(dtype), [0], False)
        compared(uniform(2, rows, columns + 9).to(dtype)[:, 4:-5], [0], False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sum_columns__pieces_and_several_dims(dtype: torch.dtype) -> None:
    for columns in (1024, 1025, 2060, 4100, 5200):
        compared(uniform(3, 70, columns).to(dtype), [0], False)
        compared(uniform(4, 3, 5, 6, columns).to(dtype), [0, 2], False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sum_columns__minus_zeros(dtype: torch.dtype) -> None:
    for rows in ROWS:
        compared(torch.full((rows, 17), -0.0, dtype=dtype), [0], False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sum_columns__rows_of_an_index(dtype: torch.dtype) -> None:
    for rows in ROWS:
        x = uniform(5, rows, COLUMNS[rows % len(COLUMNS)] + 16).to(dtype)
        compared(x, torch.full((rows,), 1), 3, op="index_sum")
