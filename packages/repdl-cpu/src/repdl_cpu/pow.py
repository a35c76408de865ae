"""Glue of pow: with a number the elements as one flat run, with a tensor an elementwise op."""

from __future__ import annotations

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.elementwise import elementwise_op
from repdl_cpu.isa import native


def _pow(input: torch.Tensor, exponent: float) -> torch.Tensor:
    output = huge_pages(layout.outputs("pow")(input, exponent))
    source = layout.matching(input, output)
    native().pow(source.data_ptr(), output.data_ptr(), source.numel(), exponent, get_num_threads())
    return output


OPS = {"pow": _pow, "pow_tensor": elementwise_op("pow_tensor", 2)}
