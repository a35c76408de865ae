"""The order of floating-point numbers as integers: comparisons that no floating-point environment changes.

torch's comparisons take subnormal numbers for zero where a thread flushes them. Integers of the same order, of the
bits of numbers, compare the same everywhere: equal ones of numbers that are equal, the largest one of every NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.dtypes import ALL
from repdl.registry import functions as _ops

__all__ = ["gather_words", "greater_than", "is_related", "less_than", "sort_key"]

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
INFINITY = {torch.float32: 0x7F800000, torch.float64: 0x7FF << 52, torch.bfloat16: 0x7F80, torch.float16: 0x7C00}


def sort_key(tensor: Tensor) -> Tensor:
    """Integers in the order of the elements: -inf first, both zeros 0, NaN last; integers as they are."""
    if tensor.dtype not in ALL:
        return tensor
    bits, most = bits_and_most(tensor)
    size = bits & most
    is_nan = size > INFINITY[tensor.dtype]
    return torch.where(is_nan, most, torch.where(bits < 0, -size, size))


def gather_words(tensor: Tensor, dim: int, index: Tensor) -> Tensor:
    """torch.gather of the bits of floats: a CPU moves those of 16 bits by way of float32, which changes a NaN."""
    return bits_and_most(tensor)[0].gather(dim, index).view(tensor.dtype)


def bits_and_most(tensor: Tensor) -> tuple[Tensor, int]:
    """The bits of floating-point numbers as integers, and those of all but the sign."""
    integer = _INTEGERS[tensor.dtype.itemsize]
    plain = tensor.detach()
    if torch.compiler.is_compiling() or plain.is_neg():  # Dynamo can't ask, and resolves what is none, too
        plain = plain.resolve_neg()
    return plain.view(integer), torch.iinfo(integer).max


def less_than(a: Tensor, b: Tensor, contract: str) -> Tensor:
    """Where a < b: their difference is not 0 unless they are equal, and its sign is a normal number."""
    return _sign_of_difference(a, b, contract) < 0


def greater_than(a: Tensor, b: Tensor, contract: str) -> Tensor:
    """Where a > b, as `less_than`; the layout follows a, then b."""
    return _sign_of_difference(a, b, contract) > 0


def _sign_of_difference(a: Tensor, b: Tensor, contract: str) -> Tensor:
    return _ops.sign(_ops.sub(a.detach(), b.detach(), contract))


def is_related(x: Tensor, relation: str, number: float) -> Tensor:
    """Where `x < number`, or another relation, to 0 or to a normal number of few bits."""
    plain, compare = x.detach(), _RELATIONS[relation]
    if number != 0:
        return compare(plain, number)
    if relation in ("<", ">"):  # the sign of NaN is 0
        return compare(_ops.sign(plain), 0)
    if relation in ("==", "!="):
        bits, most = bits_and_most(plain)
        return compare(bits & most, 0)
    found = compare(sort_key(plain), 0)
    return found if relation == "<=" else found & ~plain.isnan()
