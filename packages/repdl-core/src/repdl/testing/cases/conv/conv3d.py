"""Cases of conv3d and its gradients: every option, phases of a stride, layouts, special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.ops.conv._convolution import output_size
from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

# name: n, c, sides, o, kernel, stride, padding, dilation, groups
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "plain": (2, 3, (4, 5, 6), 4, (3, 3, 3), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
    "padding": (2, 2, (3, 5, 4), 3, (3, 2, 3), (1, 1, 1), (1, 0, 1), (1, 1, 1), 1),
    "stride": (2, 2, (7, 6, 5), 4, (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1), 2),
    "stride_past_kernel": (1, 2, (8, 4, 5), 3, (2, 2, 1), (3, 2, 1), (0, 1, 0), (1, 1, 1), 1),
    "stride_and_dilation": (1, 2, (9, 5, 6), 3, (3, 2, 2), (2, 2, 1), (2, 0, 1), (3, 1, 2), 1),
    "dilation_of_the_stride": (1, 2, (9, 4, 4), 2, (3, 1, 2), (2, 1, 1), (1, 0, 0), (2, 1, 1), 1),
    "depthwise": (2, 5, (4, 4, 5), 5, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 5),
    "many_terms": (1, 20, (3, 4, 4), 3, (3, 3, 2), (1, 1, 1), (1, 1, 0), (1, 1, 1), 1),
    "one_slice": (2, 3, (1, 5, 5), 4, (1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1),
}
HALF = ("plain", "stride")


def _arguments(op: str, name: str, special: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
    n, c, sides, o, kernel, stride, padding, dilation, groups = GEOMETRIES[name]
    x = uniform(1, n, c, *sides, special=special, scale=scale)
    weight, bias = uniform(2, o, c // groups, *kernel), uniform(3, o)
    positions = [output_size(*of) for of in zip(sides, kernel, stride, padding, dilation)]
    grad = uniform(4, n, o, *positions, special=special, scale=scale)
    options = list(stride), list(padding), list(dilation), groups
    if op == "conv3d":
        return x, weight, bias, *options
    if op == "conv3d_grad_input":
        return grad, weight, list(sides), *options
    return grad, x, list(kernel), *options


def _strided(op: str) -> tuple[Any, ...]:
    """Channels last, and kernels with other strides."""
    first, second, *rest = _arguments(op, "stride")
    return (
        first.contiguous(memory_format=torch.channels_last_3d),
        second.transpose(3, 4).contiguous().transpose(3, 4),
        *rest,
    )


def _empty(op: str) -> tuple[Any, ...]:
    first, second, *rest = _arguments(op, "plain")
    return first[:0], second[:0] if op == "conv3d_grad_weight" else second, *rest


def _subnormal() -> tuple[Any, ...]:
    x, weight, bias, *options = _arguments("conv3d", "plain")
    return x * 2.0**-130, weight, bias * 2.0**-130, *options


def _subnormal_grad() -> tuple[Any, ...]:
    grad, *others = _arguments("conv3d_grad_weight", "plain")
    return grad * 2.0**-130, *others


def _without_bias() -> tuple[Any, ...]:
    x, weight, _, *options = _arguments("conv3d", "stride")
    return x, weight, None, *options


OTHERS: dict[str, Callable[[str], tuple[Any, ...]]] = {
    "strided": _strided,
    "empty": _empty,
    "special": lambda op: _arguments(op, "padding", special=True),
    "subnormal": lambda op: _arguments(op, "stride", scale=2.0**-130),
}
CASES = [
    *(
        Case(op, name, lambda op=op, name=name: _arguments(op, name), dtypes=EVERY if name in HALF else DOUBLE)
        for op in ("conv3d", "conv3d_grad_input", "conv3d_grad_weight")
        for name in GEOMETRIES
    ),
    *(
        Case(op, name, lambda op=op, make=make: make(op), dtypes=() if name == "subnormal" else EVERY)
        for op in ("conv3d", "conv3d_grad_input", "conv3d_grad_weight")
        for name, make in OTHERS.items()
    ),
    Case("conv3d", "no_bias", _without_bias, dtypes=EVERY),
    Case("conv3d", "subnormal_bias", _subnormal),
    Case("conv3d_grad_weight", "subnormal_grad", _subnormal_grad),
]
