"""Glue of max: rows along the last dimension."""

from __future__ import annotations

import torch

from repdl_cuda.native import native, stream


def _max_rows(rows: torch.Tensor, values: torch.Tensor, indices: torch.Tensor | None, n: int) -> None:
    kernels = native(rows)
    work = torch.empty(kernels.max_work(values.numel(), n), dtype=torch.int64, device=rows.device)
    kernels.max_dim(
        rows.data_ptr(),
        values.data_ptr(),
        0 if indices is None else indices.data_ptr(),
        work.data_ptr(),
        values.numel(),
        n,
        stream(rows),
    )


def max(input: torch.Tensor) -> torch.Tensor:
    input = input.contiguous()
    output = input.new_empty(())
    _max_rows(input, output, None, input.numel())
    return output


def max_backward(grad: torch.Tensor, input: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    input = input.contiguous()
    result = torch.empty_like(input)
    ties = torch.zeros(1, dtype=torch.int64, device=input.device)
    native(grad).max_backward(
        grad.data_ptr(),
        input.data_ptr(),
        output.data_ptr(),
        result.data_ptr(),
        ties.data_ptr(),
        input.numel(),
        stream(grad),
    )
    return result


def max_dim(input: torch.Tensor, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    rows = input.movedim(dim, -1).contiguous() if input.dim() else input.reshape(1)
    values = rows.new_empty(rows.shape[:-1])
    indices = torch.empty_like(values, dtype=torch.int64)
    _max_rows(rows, values, indices, rows.shape[-1])
    if keepdim and input.dim():
        return values.unsqueeze(dim), indices.unsqueeze(dim)
    return values, indices


OPS = {"max": max, "max_backward": max_backward, "max_dim": max_dim}
