"""Exact ops of torch that give NaN of a half bits which depend on the processor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from repdl.dtypes import HALF

Function = Callable[..., Any]
OPS = frozenset({"ceil", "floor", "frac", "neg", "round", "threshold_backward", "trunc"})
"""By torch's name: their vector loops keep the payload, or the sign, and the loops for the rest do not."""


def canonical(kernel: Function) -> Function:
    """A kernel whose NaN is the one that halves have in every op of RepDL."""

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        result = kernel(keyset, *args, **kwargs)
        if result.dtype in HALF and not result.is_meta:
            result.masked_fill_(result != result, math.nan)
        return result

    return call


__all__ = ["OPS", "canonical"]
