"""Variable scalars: floating-point numbers of a recorded call that other ones may replace when it is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch

_DTYPES = torch.float32, torch.float64


class VariableScalars(NamedTuple):
    """Where the scalars of a call go, if other ones may take their place.

    Attributes:
        steps: for each kernel, of the floating-point numbers among its arguments: the index of one of the call, or -1
            and the value; empty: all are as they were.
        constants: indices of a constant and of the number that it is, and the size of its dtype.
    """

    steps: tuple[tuple[tuple[int, float], ...], ...] = ()
    constants: tuple[tuple[int, int, int], ...] = ()


class Happened(Protocol):
    """What a call did (`repdl.callcache.Trace`)."""

    steps: list[tuple[Any, Sequence[Any], Sequence[torch.Tensor], int, int]]
    constants: list[torch.Tensor]
    values: list[Any]
    refused: bool


def match_scalars(
    given: Sequence[float], others: Sequence[float], trace: Happened, other: Happened
) -> VariableScalars | None:
    """Where the scalars of a call went that another call of the same function, with others, shows; None: it computes
    with them, or does something else."""
    if len(other.steps) != len(trace.steps) or len(other.constants) != len(trace.constants) or other.refused:
        return None
    index = {value: n for n, (value, before) in enumerate(zip(others, given)) if value != before}
    used: set[int] = set()

    def argument(before: Any, now: Any) -> int:
        """The number of the call that a value is, or -1. Raises where it is neither that nor the same in both calls."""
        n = index.get(now, -1) if type(now) is float else -1
        if before is not now and before != (now if n < 0 else given[n]):
            raise LookupError
        used.add(n)
        return n

    try:
        steps = []
        for (kernel, arguments, _, *at), (other_kernel, changed, _, *other_at) in zip(trace.steps, other.steps):
            if kernel is not other_kernel or at != other_at:
                return None
            pairs = [(a, b) for a, b in zip(arguments, changed) if not isinstance(a, (torch.Tensor, list))]
            found = [(argument(a, b), a) for a, b in pairs]
            steps.append(tuple((n, a) for n, a in found if type(a) is float))
        scalars = [argument(a, b) for a, b in zip(trace.values, other.values)]
    except LookupError:
        return None
    constants = [(i, n, trace.constants[i]) for i, n in enumerate(scalars) if n >= 0]
    if any(tensor.device.type != "cpu" or tensor.dtype not in _DTYPES for _, _, tensor in constants):
        return None
    if set(index.values()) - used:
        return None  # one is in nothing that is seen
    return VariableScalars(tuple(steps), tuple((i, n, tensor.itemsize) for i, n, tensor in constants))


__all__ = ["VariableScalars", "match_scalars"]
