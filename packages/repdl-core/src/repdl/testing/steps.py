"""Arguments of optimizers' steps, whose lists hold any tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.registry import OPS
from repdl.testing.cases import cases


def step_arguments(op: str, tensors: Callable[[int], list[torch.Tensor]]) -> tuple[Any, ...]:
    """The arguments of the case of `op` that fills the most lists, `tensors(i)` in place of its i-th list."""
    known = [case.make() for case in cases(OPS[op].family) if case.op == op and case.derived is None]
    args = max(known, key=lambda args: sum(bool(a) for a in args if isinstance(a, list)))
    number = iter(range(len(args)))
    return tuple((tensors(next(number)) if a else a) if isinstance(a, list) else a for a in args)
