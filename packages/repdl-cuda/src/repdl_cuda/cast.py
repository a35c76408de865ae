"""Glue of cast: flat memory."""

from __future__ import annotations

import torch

from repdl import layout
from repdl_cuda.native import native, stream

FORMATS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}


def cast(input: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    output = layout.outputs("cast")(input, dtype)
    input = layout.matching(input, output)
    native(input).cast(
        input.data_ptr(), output.data_ptr(), FORMATS[input.dtype], FORMATS[dtype], input.numel(), stream(input)
    )
    return output


OPS = {"cast": cast}
