"""NaN in ops that stay torch's: what computes gives the one NaN of the dtype, as every op of RepDL.

What moves numbers keeps their bits, `where` and `nan_to_num` too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from repdl.audit.op_classes import plain_name
from repdl.callcache import guard
from repdl.dtypes import ALL, FLOATS_16_BIT
from repdl.overrides.torchs import TorchKernel

Function = Callable[..., Any]
OPS = frozenset({"ceil", "conj_physical", "copysign", "floor", "frac", "nextafter", "round", "trunc"})
"""By torch's name: where vectors keep a NaN, the loop for the rest quiets it or makes another one."""
WORDS = frozenset({"gather", "scatter"})
"""Ops of torch that move 16-bit floats by way of float32."""
NUMBERS = frozenset({"_local_scalar_dense", "fill_.Scalar", "nan_to_num", "nan_to_num_", "nan_to_num.out"})
"""Ops that read or write a Python scalar; how they round a NaN to 16 bits depends on the device."""


def canonical(name: str, kernel: Function) -> Function:
    """A kernel whose NaN is the one that the dtype has in every op of RepDL; of a conjugate the imaginary part's."""

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        result = made = kernel(keyset, *args, **kwargs)
        if name == "conj_physical":
            if not result.is_complex():
                return result
            made = torch.view_as_real(result)[..., 1]
        if made.dtype in ALL and not made.is_meta:
            made.mul_(1.0)  # RepDL's, which is exact but for NaN
        return result

    return call


class WordKernel(TorchKernel):
    """torch's kernel, which moves 16-bit floats by way of float32; it gets them as integers of their bits."""

    def call(self, keyset: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As of every kernel."""
        dtype = getattr(args[0], "dtype", None)
        if dtype not in FLOATS_16_BIT or args[0].is_meta or "reduce" in kwargs:
            return super().call(keyset, args, kwargs)
        input, dim, index, *values = args
        words = [_words(value, dtype) for value in (input, *values)]
        if "out" in kwargs:
            made = index if plain_name(self.op) == "gather" else input
            if kwargs["out"].shape != made.shape:
                kwargs["out"].resize_(made.shape)
        named = {key: _words(value, dtype) if key == "out" else value for key, value in kwargs.items()}
        result = super().call(keyset, (words[0], dim, index, *words[1:]), named)
        if "out" in kwargs:
            return kwargs["out"]
        return input if result is words[0] else result.view(dtype)


def _words(value: Any, dtype: torch.dtype) -> Any:
    """Bits of 16-bit floats as int16; of other tensors what they are, which torch says something to."""
    if isinstance(value, torch.Tensor):
        return value.view(torch.int16) if value.dtype is dtype else value
    return torch.scalar_tensor(_plain(value), dtype=dtype).view(torch.int16).item()


def of_numbers(name: str, original: TorchKernel) -> Function:
    """A kernel that gives or gets Python's own NaN for each number that is NaN."""

    def read(keyset: Any, input: Any) -> Any:
        return _plain(original.boxed(keyset, input) if isinstance(input, torch.Tensor) else input)

    def write(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        plain = {key: _plain(value) for key, value in kwargs.items()}
        return original.call(keyset, tuple(map(_plain, args)), plain)

    if name == "aten::_local_scalar_dense":
        return guard("whole number", original.boxed, read)
    return guard("floating", original.boxed, write) if name == "aten::fill_.Scalar" else write


def _plain(value: Any) -> Any:
    if isinstance(value, complex):
        return complex(_plain(value.real), _plain(value.imag))
    return math.nan if isinstance(value, float) and math.isnan(value) else value


__all__ = ["NUMBERS", "OPS", "WORDS", "WordKernel", "canonical", "of_numbers"]
