"""Glue of sum: kept and reduced dimensions as sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from repdl.contract import Contract
from repdl_cuda.native import native, stream, workspace


def sum(input: torch.Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> torch.Tensor:
    sizes, strides = input.shape, input.stride()
    kept = [d for d in range(input.dim()) if d not in dim]
    output = input.new_empty([1 if d in dim else sizes[d] for d in range(input.dim()) if keepdim or d not in dim])
    chosen = Contract.parse(contract)
    work = workspace(input, native(input).sum_work(output.numel(), prod(sizes[d] for d in dim), chosen.sum_block))
    native(input).sum(
        input.data_ptr(),
        output.data_ptr(),
        work.data_ptr(),
        [sizes[d] for d in kept],
        [strides[d] for d in kept],
        [sizes[d] for d in dim],
        [strides[d] for d in dim],
        chosen.sum_lanes,
        chosen.sum_block,
        stream(input),
    )
    return output


OPS = {"sum": sum}
