"""The bytes of a tensor's elements, for digests and files: the same on every machine."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

_OF_NUMPY = {
    *(torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
}


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The elements in row-major order, each little-endian; the memory of the tensor itself where that is possible."""
    if tensor.is_contiguous() and _is_plain(tensor):  # most are
        return tensor.detach().numpy().reshape(-1).view(np.uint8).data
    flat = tensor.detach().cpu()
    if flat.is_conj() or flat.is_neg():
        flat = flat.resolve_conj().resolve_neg()
    flat = flat.contiguous().reshape(-1)
    if not flat.numel():
        return memoryview(b"")
    return memoryview(little_endian(flat.view(torch.uint8).numpy(), flat.dtype))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether numpy shows the memory of a tensor as it is."""
    ours = tensor.dtype in _OF_NUMPY and tensor.device.type == "cpu" and sys.byteorder == "little"
    return ours and tensor.numel() > 0 and not (tensor.is_conj() or tensor.is_neg())


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
