"""The order of floating-point numbers as integers: comparisons that no floating-point environment changes.

torch's comparisons take subnormal numbers for zero where a thread flushes them. Integers of the same order, of the
bits of numbers, compare the same everywhere: equal ones of numbers that are equal, the largest one of every NaN.
"""

from __future__ import annotations

import torch

from repdl.dtypes import ALL

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_INFINITY = {torch.float32: 0x7F800000, torch.float64: 0x7FF << 52, torch.bfloat16: 0x7F80, torch.float16: 0x7C00}


def sort_key(tensor: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the elements: -inf first, both zeros 0, NaN last; integers as they are."""
    if tensor.dtype not in ALL:
        return tensor
    integer = _INTEGERS[tensor.dtype.itemsize]
    plain = tensor.detach()
    if torch.compiler.is_compiling() or plain.is_neg():  # Dynamo can't ask, and resolves what is none, too
        plain = plain.resolve_neg()
    bits = plain.view(integer)
    most = torch.iinfo(integer).max
    size = bits & most
    is_nan = size > _INFINITY[tensor.dtype]
    return torch.where(is_nan, most, torch.where(bits < 0, -size, size))
