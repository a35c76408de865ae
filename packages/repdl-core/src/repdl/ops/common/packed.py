"""Elements and their places as one integer each, on the host, for NumPy: no two are equal, so nothing depends on how
a sort or a partition treats equal ones. NumPy's are several times faster than torch's stable sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.dtypes import ALL
from repdl.ops.common.sort_key import INFINITY, bits_and_most
from repdl.tensors.values import is_numpys

__all__ = ["can_pack", "ordered_places", "packed", "places_of"]

Integers = np.ndarray[Any, np.dtype[np.int64]]
_SHIFT = 32
_PACKED = (torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def can_pack(tensor: Tensor, dim: int) -> bool:
    """Whether the host can read the elements, and they and their places along `dim` have 64 bits at most."""
    return tensor.dtype in _PACKED and is_numpys(tensor) and tensor.shape[dim] < 1 << _SHIFT - 1


def packed(tensor: Tensor, dim: int, *, descending: bool = False, nan_is_least: bool = False) -> Integers:
    """Integers in the order of the elements, or in its reverse; of equal ones, both zeros among them, the first is the
    smallest. NaN is the largest element, or the least."""
    do_not_cache()
    if tensor.dtype in ALL:
        bits, most = bits_and_most(tensor)
        key = bits.numpy().astype(np.int64)
        sign = key >> 63
        key &= most
        is_nan = key > INFINITY[tensor.dtype]
        key ^= sign  # -key, where the sign is -1
        key -= sign
        if is_nan.any():
            key[is_nan] = -most if nan_is_least else most
    else:
        key = tensor.numpy().astype(np.int64)
    if descending:
        np.invert(key, out=key)
    key <<= _SHIFT
    size = tensor.shape[dim]
    key += np.arange(size).reshape([size if d == dim else 1 for d in range(tensor.dim())])
    return key


def places_of(numbers: Integers) -> Tensor:
    """The places in what `packed` has made."""
    return torch.from_numpy(numbers & ((1 << _SHIFT) - 1))


def ordered_places(tensor: Tensor, dim: int, descending: bool, first: int, count: int) -> Tensor:
    """Where the elements number `first` to `first + count - 1` of a stable sort along `dim` are."""
    numbers, size = packed(tensor, dim, descending=descending), tensor.shape[dim]
    if 0 < count < size:
        ends = {first, first + count - 1}
        numbers.partition(sorted(ends - {0} or ends), dim)  # what is taken from 0 on ends there anyway
    chosen = numbers.take(np.arange(first, first + count), dim) if count < size else numbers
    if count > 1:
        chosen.sort(dim)
    return places_of(chosen)
