"""Arithmetic of tensors of one shape and of numbers, by the registered ops.

No operand is broadcast but numbers, which have no gradient, so that the contract says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from repdl.contract import ANY_CONTRACT
from repdl.ops.common.scalar import constant
from repdl.registry import functions as _ops


def _operator(op: str) -> Callable[[Tensor | float, Tensor | float], Tensor]:
    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        a, b = (t if isinstance(t, Tensor) else constant(t, like.dtype, like.device) for t in (a, b))
        return getattr(_ops, op)(a, b, ANY_CONTRACT)

    return call


add, div, mul, sub = map(_operator, ("add", "div", "mul", "sub"))
