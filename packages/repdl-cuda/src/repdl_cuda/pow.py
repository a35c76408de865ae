"""Glue of pow: with a number the elements as one flat run, with a tensor an elementwise op."""

from __future__ import annotations

import torch

from repdl import layout
from repdl_cuda.elementwise import elementwise_op
from repdl_cuda.native import native, stream


def _pow(input: torch.Tensor, exponent: float) -> torch.Tensor:
    output = layout.outputs("pow")(input, exponent)
    source = layout.matching(input, output)
    native(source).pow(source.data_ptr(), output.data_ptr(), source.numel(), exponent, stream(source))
    return output


OPS = {"pow": _pow, "pow_tensor": elementwise_op("pow_tensor", 2)}
