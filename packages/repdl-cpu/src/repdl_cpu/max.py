"""Glue of max: rows along the last dimension."""

from __future__ import annotations

import torch

from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def max(input: torch.Tensor) -> torch.Tensor:
    input = input.contiguous()
    output = input.new_empty(())
    native(input.dtype).max_dim(input.data_ptr(), output.data_ptr(), 0, 1, input.numel(), get_num_threads())
    return output


def max_backward(grad: torch.Tensor, input: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    input = input.contiguous()
    result = huge_pages(torch.empty_like(input))
    native(grad.dtype).max_backward(
        grad.data_ptr(), input.data_ptr(), output.data_ptr(), result.data_ptr(), input.numel(), get_num_threads()
    )
    return result


def max_dim(input: torch.Tensor, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    rows = input.movedim(dim, -1).contiguous() if input.dim() else input.reshape(1)
    values = rows.new_empty(rows.shape[:-1])
    indices = torch.empty_like(values, dtype=torch.int64)
    native(input.dtype).max_dim(
        rows.data_ptr(), values.data_ptr(), indices.data_ptr(), values.numel(), rows.shape[-1], get_num_threads()
    )
    if keepdim and input.dim():
        return values.unsqueeze(dim), indices.unsqueeze(dim)
    return values, indices


OPS = {"max": max, "max_backward": max_backward, "max_dim": max_dim}
