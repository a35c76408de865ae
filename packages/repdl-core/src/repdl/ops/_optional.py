"""Tensors that may be None."""

from __future__ import annotations

import torch


def address(tensor: torch.Tensor | None) -> int:
    """Where the tensor lies; 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def contiguous(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """A contiguous tensor of the same elements; None for None."""
    return None if tensor is None else tensor.contiguous()
