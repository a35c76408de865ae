"""The option `inplace` of functions of an element."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from repdl.errors import check_bool
from repdl.tensors.overlap import check_apart

__all__ = ["applied"]


def applied(op: str, function: Callable[[Tensor], Tensor], input: Tensor, inplace: bool) -> Tensor:
    """`function(input)`, which with `inplace` goes into `input`; its derivative then has a copy of that."""
    check_bool(op, inplace=inplace)
    if not inplace:
        return function(input)
    check_apart(op, input=input)
    return input.copy_(function(input.clone() if torch.is_grad_enabled() else input))
