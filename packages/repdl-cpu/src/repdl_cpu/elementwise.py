"""Glue of the elementwise ops: every operand as it lies, broadcast by strides of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def elementwise_op(
    name: str, operands: int, empty: Callable[..., torch.Tensor] | None = None
) -> Callable[..., torch.Tensor]:
    """The implementation of an op of that many tensors, by the kernel of its name."""
    empty = empty or layout.outputs(name)

    def run(*args: Any) -> torch.Tensor:
        tensors = args[:operands]
        first = tensors[0]
        row = layout.flat(tensors)
        if row:
            shape, strides = row
            output = huge_pages(first.new_empty(shape))
            size = [output.numel()]
        else:
            output = huge_pages(empty(*args))
            size, strides = layout.passes(output, tensors)
        getattr(native(first.dtype), name)(
            *(t.data_ptr() for t in tensors), output.data_ptr(), size, *strides, get_num_threads()
        )
        return output

    return run


canonical = elementwise_op("canonical", 1, layout.empty_pointwise)
"""The same elements with every NaN 0x7fc00000: for ops that copy elements."""

_UNARY = (
    "abs",
    "cos",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "tanh",
)
_BINARY = ("add", "div", "maximum", "minimum", "mul", "relu_backward", "sub")

OPS = {
    **{name: elementwise_op(name, 1) for name in _UNARY},
    **{name: elementwise_op(name, 2) for name in _BINARY},
    "maximum_backward": elementwise_op("maximum_backward", 3),
}
