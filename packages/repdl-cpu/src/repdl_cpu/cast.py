"""Glue of cast: flat memory."""

from __future__ import annotations

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native

FORMATS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}


def cast(input: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    output = huge_pages(layout.outputs("cast")(input, dtype))
    input = layout.matching(input, output)
    native().cast(
        input.data_ptr(), output.data_ptr(), FORMATS[input.dtype], FORMATS[dtype], input.numel(), get_num_threads()
    )
    return output


OPS = {"cast": cast}
