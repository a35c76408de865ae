"""Arguments that the losses over class indices share."""

from __future__ import annotations

from collections.abc import Sequence

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def sizes(target: Sequence[int], classes: int) -> list[int]:
    """N, C and the number of positions beside them."""
    inner = 1
    for n in target[1:]:
        inner *= n
    return [target[0], classes, inner]
