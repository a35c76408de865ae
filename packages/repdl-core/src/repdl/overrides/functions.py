"""Which function of RepDL computes an op of torch while `repdl.enable()` holds.

A public function of `repdl.ops` computes the op of its name, unless torch's own is exact; what it computes beside that
is declared where it is defined (`repdl.registry.aten`). Complex numbers, draws, the ops of derivatives and the scaling
of gradients, which programs reach only by torch's own functions, are declared here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import _C

from repdl import ops
from repdl.audit.op_classes import OpClass, class_of
from repdl.overrides import complex_numbers
from repdl.overrides.backward_ops import BACKWARD, convolution
from repdl.overrides.draws import DRAWS
from repdl.overrides.saving_ops import SAVING
from repdl.overrides.scaling import unscale, update_scale
from repdl.registry.aten import OVERRIDES, Override, computes

Tensor = torch.Tensor
Function = Callable[..., Any]


def _times(factor: float) -> Function:
    def scaled(input: Tensor) -> Tensor:
        return ops.mul(input, factor)

    return scaled


def _rsub(input: Tensor, other: Any, alpha: float = 1) -> Tensor:
    return ops.sub(other, input, alpha=alpha)


for _name, _function in (DRAWS | BACKWARD | SAVING).items():
    computes(_name, as_given=True)(_function)
for _name in ("add", "mean", "mul", "neg", "sub", "sum"):
    computes(_name, of_complex=getattr(complex_numbers, _name))(getattr(ops, _name))
computes("_amp_foreach_non_finite_check_and_unscale_", as_given=True)(unscale)
computes("_amp_update_scale_", as_given=True)(update_scale)
computes("_convolution", ignored=("allow_tf32", "benchmark", "cudnn_enabled", "deterministic"))(convolution)
computes("convolution")(convolution)
computes("deg2rad")(_times(math.pi / 180))
computes("polar")(complex_numbers.polar)
computes("rad2deg")(_times(180 / math.pi))
computes("rsub", of_complex=complex_numbers.rsub)(_rsub)


_BY_OTHERS = frozenset({"argsort", "broadcast_to", "qr", "tensordot", "tile"})
"""Ops that torch composes of others which are computed, in the way of our functions."""


def _by_name() -> Mapping[str, Override]:
    """Public functions with the name of an op of torch that is not exact as it is."""
    aten = {name[6:].partition(".")[0] for name in _C._dispatch_get_all_op_names() if name.startswith("aten::")}
    exact = OpClass.MOVES, OpClass.EXACT
    names = [name for name in ops.__all__ if name in aten - _BY_OTHERS and class_of(name) not in exact]
    return {name: Override(getattr(ops, name)) for name in names}


@functools.cache
def functions() -> Mapping[str, Override]:
    """All by torch's name, those of the entry points `repdl.overrides` too: modules that declare them when imported."""
    for point in entry_points(group="repdl.overrides"):
        point.load()
    return {**_by_name(), **OVERRIDES}


__all__ = ["functions"]
