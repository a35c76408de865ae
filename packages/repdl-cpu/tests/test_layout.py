"""The outputs of the CPU backend lie where the fake kernels say; operands are read wherever they lie, and whole."""

from __future__ import annotations

import pytest
import torch

import repdl
from repdl.testing import assert_same_bits, uniform
from repdl.testing.layouts import assert_layouts, assert_operands


def test_layout__outputs_have_the_strides_of_the_fake_ones() -> None:
    assert_layouts("cpu")


def test_layout__operands_have_any_strides() -> None:
    assert_operands("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_layout__rows_of_a_table_of_every_length(dtype: torch.dtype) -> None:
    """Rows of some numbers of bytes are copied as one integer."""
    index = torch.tensor([[4, 0], [2, 4]])
    for width in range(18):
        table = uniform(1, 5, width).to(dtype)
        assert_same_bits(repdl.ops.embedding(index, table), table[index], f"{dtype}, rows of {width}")
