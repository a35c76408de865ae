"""Hashes of parameters, as the Microsoft RepDL prototype prints them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import torch

from repdl.tensors.raw import raw_bytes


def get_hash(x: torch.Tensor | torch.nn.Module) -> str:
    """SHA-256 over the little-endian bytes of a tensor, or of all parameters of a module.

    Parameters are taken in the order of `module.parameters()`; names, shapes and buffers
    are not part of it. `repdl.digest` covers those.

    Raises:
        TypeError: if `x` is neither a tensor nor a module.
    """
    if isinstance(x, torch.Tensor):
        return sha256(raw_bytes(x)).hexdigest()
    if isinstance(x, torch.nn.Module):
        result = sha256()
        for parameter in x.parameters():
            result.update(raw_bytes(parameter))
        return result.hexdigest()
    raise TypeError(f"get_hash: x is a {type(x).__name__}, expected torch.Tensor or torch.nn.Module")


def print_hash(x: torch.Tensor | torch.nn.Module) -> None:
    """Print `get_hash(x)`."""
    print(get_hash(x))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of even width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
