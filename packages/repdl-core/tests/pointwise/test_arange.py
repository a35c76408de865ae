"""arange, and torch's arange, range and linspace under `repdl.enable`."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import OutOfRangeError, UnsupportedError
from repdl.testing import assert_same_bits

RANGES = [
    *((0, 1, 0.1), (0.5, 3, 1), (0, 5, 1), (3, 0, -0.5), (-1, 1, 2 / 63), (0.1, 0.2, 0.001), (1e-3, 1e-3, 1.0)),
    *((0, 7.3, 1 / 3), (-0.0, 2, 0.7), (2**24, 2**24 + 9, 1), (0, 1e-40, 1e-42), (5, -5, -1), (0, 900, 0.9)),
]
DTYPES = torch.float32, torch.float64, torch.bfloat16, torch.float16


def expected(start: float, end: float, step: float, dtype: torch.dtype) -> torch.Tensor:
    """The contract's text: a product and a sum of doubles, then one rounding."""
    count = math.ceil((end - start) / step)
    return ops.cast(torch.from_numpy(np.arange(count) * np.float64(step) + np.float64(start)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arange__is_product_and_sum_of_doubles(dtype: torch.dtype) -> None:
    values = {given: expected(*given, dtype) for given in RANGES}
    for given, numbers in values.items():
        assert_same_bits(ops.arange(*given, dtype=dtype), numbers)
        assert numbers.shape == torch.arange(*given, dtype=torch.float64).shape
    with repdl.enabled():
        for given, numbers in values.items():
            assert_same_bits(torch.arange(*given, dtype=dtype), numbers)
            assert_same_bits(torch.arange(*given, out=torch.empty(0, dtype=dtype)), numbers)


def test_arange__forms_and_dtypes_are_torchs() -> None:
    calls = [
        *((lambda f: f(5)), (lambda f: f(5.0)), (lambda f: f(1, 4)), (lambda f: f(0.5, 4)), (lambda f: f(0, 4, 2))),
        *(
            (lambda f: f(3, dtype=torch.float64)),
            (lambda f: f(0.0, 4.0, dtype=torch.int32)),
            (lambda f: f(0)),
        ),
        *((lambda f: f(2.5, requires_grad=True)), (lambda f: f(7, 1, -2)), (lambda f: f(2, dtype=torch.bfloat16))),
    ]
    for call in calls:
        theirs = call(torch.arange)
        for ours in (call(ops.arange), repdl.enabled()(lambda: call(torch.arange))()):
            assert ours.dtype is theirs.dtype and torch.equal(ours, theirs)
            assert ours.requires_grad == theirs.requires_grad


@pytest.mark.filterwarnings("ignore:torch.range")
def test_range__has_its_end() -> None:
    with repdl.enabled():
        assert_same_bits(torch.range(0, 1, 0.25), torch.tensor([0, 0.25, 0.5, 0.75, 1]))
        assert torch.range(1, 3).tolist() == [1, 2, 3] and torch.range(3, 1, -1).tolist() == [3, 2, 1]
        assert torch.range(0, 1, 0.25, out=torch.empty(0, dtype=torch.float64)).dtype is torch.float64


def test_linspace__into_memory_of_another_dtype() -> None:
    with repdl.enabled():
        out = torch.linspace(0, 1, 11, out=torch.empty(0, dtype=torch.float64))
        assert_same_bits(out, ops.linspace(0, 1, 11, dtype=torch.float64))


def test_arange__errors() -> None:
    for wrong in ((0, 1, 0), (0, 1, -1), (0, math.inf), (math.nan, 1)):
        with pytest.raises(OutOfRangeError, match="arange: .*expected"):
            ops.arange(*wrong)
    with pytest.raises(UnsupportedError, match="arange: start is 0.5, .*expected integers for torch.int64"):
        ops.arange(0.5, 3, dtype=torch.int64)
    with pytest.raises(UnsupportedError, match="dtype is torch.complex64"):
        ops.arange(3, dtype=torch.complex64)
    assert ops.arange(2).tolist() == [0, 1]


def test_arange__whatever_torch_takes_the_processor_for() -> None:
    code = """
import repdl, torch
with repdl.enabled():
    parts = [torch.arange(0, 1, 1 / n, dtype=dtype) for n in range(1, 80) for dtype in (torch.float32, torch.float64)]
print(repdl.digest(parts))
"""
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"ATEN_CPU_CAPABILITY": level, "REPDL_CPU_ISA": "baseline"},
            capture_output=True, text=True, check=True,
        ).stdout
        for level in ("default", "avx2")
    }  # fmt: skip
    assert len(digests) == 1
