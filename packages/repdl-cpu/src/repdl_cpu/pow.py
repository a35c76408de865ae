"""Glue of pow: the elements as one flat run."""

from __future__ import annotations

import torch

from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def _pow(input: torch.Tensor, exponent: float) -> torch.Tensor:
    source = input.contiguous()
    output = huge_pages(source.new_empty(source.shape))
    native().pow(source.data_ptr(), output.data_ptr(), source.numel(), exponent, get_num_threads())
    return output


OPS = {"pow": _pow}
