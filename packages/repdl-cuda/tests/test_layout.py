"""The outputs of the CUDA backend lie where the fake kernels say, and operands are read wherever they lie."""

from __future__ import annotations

import pytest

import repdl
from repdl.testing.layouts import assert_layouts, assert_operands

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]


@pytest.mark.parametrize("backend", BACKENDS)
def test_layout__outputs_have_the_strides_of_the_fake_ones(backend: str) -> None:
    assert_layouts(backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_layout__operands_have_any_strides(backend: str) -> None:
    assert_operands(backend)
