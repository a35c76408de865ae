"""The rows of packed sequences: which are where, and the one order that sums over them have.

Row r of packed data is step t of the sequence that stands at position j: steps ascend, and in a step positions do.
Positions are in descending order of length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Tensor = torch.Tensor


def sizes_of(lengths: Sequence[int]) -> list[int]:
    """How many sequences have each step, of their lengths in descending order."""
    sizes = []
    for step in range(lengths[0] if lengths else 0):
        sizes.append(next((j for j, length in enumerate(lengths) if length <= step), len(lengths)))
    return sizes


def places(sizes: Sequence[int], width: int, order: Tensor | None, device: torch.device) -> Tensor:
    """For each row, its place `t * width + b` in a padded batch, b being the number of its sequence."""
    numbers = torch.arange(width, device=device) if order is None else order
    return torch.cat([numbers[:size] + step * width for step, size in enumerate(sizes)])


def stable_positions(sizes: Sequence[int], order: Sequence[int]) -> list[int] | None:
    """The positions in the order of a stable sort: of equal lengths, in that of the numbers of the sequences.

    None if they are in it already.
    """
    ends = sorted({*sizes})  # a length ends where a step has fewer sequences
    positions: list[int] = []
    for end in ends:
        positions += sorted(range(len(positions), end), key=order.__getitem__)
    return None if positions == list(range(len(order))) else positions


def moved_rows(sizes: Sequence[int], positions: Sequence[int]) -> list[int]:
    """For each row in the order of `positions`, the row that it was."""
    rows: list[int] = []
    first = 0
    for size in sizes:
        rows += [first + position for position in positions[:size]]
        first += size
    return rows


__all__ = ["moved_rows", "places", "sizes_of", "stable_positions"]
