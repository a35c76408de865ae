"""Glue of matmul: operands as addresses and strides."""

from __future__ import annotations

import torch

from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl.ops._broadcast import broadcast_shapes
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def _offsets(tensor: torch.Tensor, batch: torch.Size) -> list[int]:
    """The element offset of each product's operand, in row-major order of the batch."""
    offsets = [0]
    lead = len(batch) - (tensor.dim() - 2)
    for axis, n in enumerate(batch):
        size = tensor.shape[axis - lead] if axis >= lead else 1
        stride = tensor.stride(axis - lead) if size != 1 else 0
        offsets = [offset + i * stride for offset in offsets for i in range(n)]
    return offsets


def matmul(input: torch.Tensor, mat2: torch.Tensor, transA: bool, transB: bool, contract: str) -> torch.Tensor:
    *_, a_row, a_k = input.stride()
    *_, m, k = input.shape
    if transA:
        a_row, a_k, m, k = a_k, a_row, k, m
    *_, b_k, b_column = mat2.stride()
    n = mat2.shape[-1]
    if transB:
        b_k, b_column, n = b_column, b_k, mat2.shape[-2]
    if input.dim() == 2 and mat2.dim() == 2:
        output = huge_pages(input.new_empty((m, n)))
        a_batch = b_batch = [0]
    else:
        batch = broadcast_shapes(input.shape[:-2], mat2.shape[:-2])
        output = huge_pages(input.new_empty((*batch, m, n)))
        a_batch, b_batch = _offsets(input, batch), _offsets(mat2, batch)
    native(input.dtype).matmul(
        input.data_ptr(),
        mat2.data_ptr(),
        output.data_ptr(),
        0,
        m,
        n,
        k,
        a_row,
        a_k,
        b_k,
        b_column,
        a_batch,
        b_batch,
        Contract.parse(contract).dot_chunk,
        get_num_threads(),
    )
    return output


OPS = {"matmul": matmul}
