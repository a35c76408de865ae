"""The outputs of the emulated CUDA backend lie where the fake kernels say."""

from __future__ import annotations

from repdl.testing.layouts import assert_layouts


def test_layout__outputs_have_the_strides_of_the_fake_ones() -> None:
    assert_layouts("cuda-emulated")
