"""Glue of linear: the product of matmul.cpp with a bias."""

from __future__ import annotations

import torch

from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, contract: str) -> torch.Tensor:
    (m, k), n = input.shape, weight.shape[0]
    output = huge_pages(input.new_empty((m, n)))
    bias = None if bias is None else bias.contiguous()
    native(input.dtype).matmul(
        input.data_ptr(),
        weight.data_ptr(),
        output.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        m,
        n,
        k,
        input.stride(0),
        input.stride(1),
        weight.stride(1),
        weight.stride(0),
        [0],
        [0],
        Contract.parse(contract).dot_chunk,
        get_num_threads(),
    )
    return output


OPS = {"linear": linear}
