"""Comparison of bits: no tolerance anywhere."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import torch

from repdl.tensors.raw import raw_bytes

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The integer view of a tensor's elements, in logical order."""
    return tensor.detach().cpu().contiguous().view(_INTEGERS[tensor.element_size()])


def outputs(result: Any) -> list[torch.Tensor]:
    """The tensors of an op's result, one or several."""
    return [result] if isinstance(result, torch.Tensor) else [r for r in result if r is not None]


def hex_digest(result: Any) -> str:
    """SHA-256 over shapes, dtypes and little-endian bytes of an op's outputs."""
    total = sha256()
    for tensor in outputs(result):
        total.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
        total.update(raw_bytes(tensor))
    return total.hexdigest()


def assert_same_bits(actual: Any, expected: Any, what: str = "") -> None:
    """Raise AssertionError, naming the first element, unless all outputs are bit-identical."""
    found = difference(actual, expected, what)
    if found is not None:
        raise AssertionError(found)


def difference(actual: Any, expected: Any, what: str = "") -> str | None:
    """Where outputs first differ, with both values and their bits; None if they are bit-identical."""
    left, right = outputs(actual), outputs(expected)
    if len(left) != len(right):
        return f"{what}: {len(left)} outputs, expected {len(right)}"
    for number, (a, e) in enumerate(zip(left, right)):
        where = f"{what} output {number}"
        if a.dtype != e.dtype:
            return f"{where}: dtype {a.dtype}, expected {e.dtype}"
        if a.shape != e.shape:
            return f"{where}: shape {tuple(a.shape)}, expected {tuple(e.shape)}"
        wrong = (bits(a) != bits(e)).nonzero()
        if len(wrong):
            at = tuple(wrong[0].tolist())
            return (
                f"{where}: {len(wrong)} of {a.numel()} elements differ, first at {at}: "
                f"{a.detach().cpu()[at].item()!r} ({_pattern(a, at)}), "
                f"expected {e.detach().cpu()[at].item()!r} ({_pattern(e, at)})"
            )
    return None


def _pattern(tensor: torch.Tensor, at: tuple[int, ...]) -> str:
    digits = 2 * tensor.element_size()
    return f"0x{int(bits(tensor)[at]) & (16**digits - 1):0{digits}x}"
