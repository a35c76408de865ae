"""Tensors among arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def tensors_among(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among values, and in lists and tuples among them, in their order."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_among(value)


__all__ = ["tensors_among"]
