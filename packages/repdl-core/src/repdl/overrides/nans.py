"""NaN of halves in exact ops of torch, and in numbers that are read and written: their bits depend on the processor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from repdl.dtypes import HALF
from repdl.overrides.torchs import TorchKernel
from repdl.replay import choice

Function = Callable[..., Any]
OPS = frozenset({"ceil", "floor", "frac", "neg", "round", "threshold_backward", "trunc"})
"""By torch's name: their vector loops keep the payload, or the sign, and the loops for the rest do not."""
NUMBERS = frozenset({"_local_scalar_dense", "fill_.Scalar", "nan_to_num", "nan_to_num_", "nan_to_num.out"})
"""What reads a number out of a tensor, and what writes numbers, and rounds a NaN to a half in one way or another."""


def canonical(kernel: Function) -> Function:
    """A kernel whose NaN is the one that halves have in every op of RepDL."""

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        result = kernel(keyset, *args, **kwargs)
        if result.dtype in HALF and not result.is_meta:
            result.masked_fill_(result != result, math.nan)
        return result

    return call


def of_numbers(name: str, original: TorchKernel) -> Function:
    """A kernel that gives or gets Python's own NaN for each number that is NaN."""

    def read(keyset: Any, input: Any) -> Any:
        return _plain(original.boxed(keyset, input) if isinstance(input, torch.Tensor) else input)

    def write(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        plain = {key: _plain(value) for key, value in kwargs.items()}
        return original.call(keyset, tuple(map(_plain, args)), plain)

    if name == "aten::_local_scalar_dense":
        return choice("whole number", original.boxed, read)
    return choice("floating", original.boxed, write) if name == "aten::fill_.Scalar" else write


def _plain(value: Any) -> Any:
    if isinstance(value, complex):
        return complex(_plain(value.real), _plain(value.imag))
    return math.nan if isinstance(value, float) and math.isnan(value) else value


__all__ = ["NUMBERS", "OPS", "canonical", "of_numbers"]
