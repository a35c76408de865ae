"""The bytes of a tensor's elements, for digests and files: the same on every machine."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The elements in row-major order, each little-endian; the memory of the tensor itself where that is possible."""
    flat = tensor.detach().cpu()
    if flat.is_conj() or flat.is_neg():
        flat = flat.resolve_conj().resolve_neg()
    flat = flat.contiguous().reshape(-1)
    if not flat.numel():
        return memoryview(b"")
    return memoryview(little_endian(flat.view(torch.uint8).numpy(), flat.dtype))


def little_endian(raw: Any, dtype: torch.dtype) -> Any:
    """Bytes of numbers in the order of this machine as those of little-endian ones, or the reverse."""
    if sys.byteorder == "little":
        return raw
    return np.ascontiguousarray(raw.reshape(-1, number_size(dtype))[:, ::-1]).reshape(-1)


def number_size(dtype: torch.dtype) -> int:
    """Bytes of a number; a complex element is two."""
    return dtype.itemsize // (2 if dtype.is_complex else 1)


def dtype_name(tensor: torch.Tensor) -> str:
    """The name of the dtype, without `torch.`."""
    return str(tensor.dtype).removeprefix("torch.")


__all__ = ["dtype_name", "little_endian", "number_size", "raw_bytes"]
