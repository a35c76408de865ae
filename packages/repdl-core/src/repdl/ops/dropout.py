"""dropout: what is dropped follows from the position, so no mask is kept.

The registered op is what `repdl.random` is built of; it has no public function of its own.
"""

from __future__ import annotations

from typing import Any

import torch

from repdl import registry
from repdl.dtypes import Dtypes
from repdl.ops._position import POSITION, check_place, check_position, check_probability

__all__: list[str] = []


def _check(input: torch.Tensor, position: torch.Tensor, p: float) -> None:
    check_position("dropout", position)
    check_probability("dropout", p)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    _, position, ctx.p = inputs
    ctx.save_for_backward(position)


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    (position,) = ctx.saved_tensors
    return _dropout(grad, position, ctx.p), None, None


_dropout = registry.define(
    "dropout",
    f"(Tensor input, Tensor {POSITION}, float p) -> Tensor",
    check=_check,
    check_values=lambda input, position, p: check_place("dropout", input.numel(), position),
    fake=lambda input, *_: torch.empty_like(input),
    setup_context=_setup_context,
    backward=_backward,
    dtypes=Dtypes(integers=(POSITION,)),
    host=(POSITION,),
)
