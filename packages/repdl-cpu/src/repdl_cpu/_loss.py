"""Arguments that the losses over class indices share."""

from __future__ import annotations

from collections.abc import Sequence

import torch

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def address(tensor: torch.Tensor | None) -> int:
    """Where the tensor lies; 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def contiguous(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """A contiguous tensor of the same elements; None for None."""
    return None if tensor is None else tensor.contiguous()


def sizes(target: Sequence[int], classes: int) -> list[int]:
    """N, C and the number of positions beside them."""
    inner = 1
    for n in target[1:]:
        inner *= n
    return [target[0], classes, inner]
