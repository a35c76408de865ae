"""The outputs of the CUDA backend lie where the fake kernels say."""

from __future__ import annotations

import pytest

import repdl
from repdl.testing.layouts import assert_layouts

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]


@pytest.mark.parametrize("backend", BACKENDS)
def test_layout__outputs_have_the_strides_of_the_fake_ones(backend: str) -> None:
    assert_layouts(backend)
