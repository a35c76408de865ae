"""Whether each element of a tensor has memory of its own: what is written must, or the last of several values stays,
which depends on threads and on the width of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import torch

from repdl.errors import ShapeError, UnsupportedError

_MOST_STEPS = 100_000


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two indices of a tensor have one address."""
    if tensor.layout is not torch.strided or tensor.is_contiguous() or tensor.numel() == 0:
        return False
    sides = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)
    reached = 0
    for stride, size in sides:
        if stride <= reached:
            return sides[0][0] == 0 or _meet(sides)
        reached += stride * (size - 1)
    return False


def _meet(sides: Sequence[tuple[int, int]]) -> bool:
    """Whether steps along the sides, not all of them 0, lead back to where they began: at most size - 1 along each,
    forward or backward. After too many tries, which only tensors made for it need, they count as if they did not."""
    left = _MOST_STEPS
    below = [(0, 0)]  # of the sides with smaller strides: how far they reach, and the divisor of all that they do
    for stride, size in sides:
        below.append((below[-1][0] + stride * (size - 1), gcd(below[-1][1], stride)))

    def leads_back(count: int, place: int, moved: bool) -> bool:
        """Along the first `count` sides from a place."""
        nonlocal left
        left -= 1
        if count == 0 or left < 0:
            return place == 0 and moved and left >= 0
        (stride, size), (reach, divisor) = sides[count - 1], below[count - 1]
        first = max(-(size - 1), -((reach + place) // stride))
        last = min(size - 1, (reach - place) // stride)
        for steps in range(first if moved else 0, last + 1):  # by symmetry, the first one forward
            now = place + steps * stride
            if (now % divisor == 0 if divisor else now == 0) and leads_back(count - 1, now, moved or steps != 0):
                return True
            if left < 0:
                return False
        return False

    return leads_back(len(sides), 0, False)


def check_apart(op: str, **tensors: Any) -> None:
    """Raise unless each tensor that is written, or each of a list, has memory of its own for each element. None is
    skipped."""
    if torch.compiler.is_compiling():  # what is traced runs later
        return
    for name, value in tensors.items():
        if isinstance(value, (list, tuple)):
            for index, tensor in enumerate(value):
                check_apart(op, **{f"{name}[{index}]": tensor})
        elif value is not None and overlaps_itself(value):
            raise UnsupportedError(f"{op}: {overlap(name, value)}; write into a .clone() of it")


def overlap(name: str, tensor: torch.Tensor) -> str:
    """What is wrong with a tensor."""
    return (
        f"two elements of {name} share memory (shape {tuple(tensor.shape)}, strides {tensor.stride()}), expected "
        f"memory of its own for each element that is written"
    )


def check_memory(op: str, spans: Sequence[tuple[int, int, bool]]) -> None:
    """Raise if a tensor that is written shares memory with another one of the call.

    Args:
        spans: (address, number of bytes, written) of each dense tensor.
    """
    end, end_written = 0, -1
    for address, count, written in sorted(spans):
        if count and address < (end if written else end_written):
            raise ShapeError(
                f"{op}: two tensors share memory and one of them is written, expected memory "
                f"of its own for each; pass every parameter once"
            )
        end = max(end, address + count)
        if written:
            end_written = max(end_written, address + count)


__all__ = ["check_apart", "check_memory", "overlap", "overlaps_itself"]
