"""Glue of sum: kept and reduced dimensions as sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl_cpu.isa import native


def sum(input: torch.Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> torch.Tensor:
    sizes, strides = input.shape, input.stride()
    kept = [d for d in range(input.dim()) if d not in dim]
    output = input.new_empty([1 if d in dim else sizes[d] for d in range(input.dim()) if keepdim or d not in dim])
    chosen = Contract.parse(contract)
    native(input.dtype).sum(
        input.data_ptr(),
        output.data_ptr(),
        [sizes[d] for d in kept],
        [strides[d] for d in kept],
        [sizes[d] for d in dim],
        [strides[d] for d in dim],
        chosen.sum_lanes,
        chosen.sum_block,
        get_num_threads(),
    )
    return output


OPS = {"sum": sum}
