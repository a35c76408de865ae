"""Glue of pad: forward is a copy, backward a sum of rows."""

from __future__ import annotations

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl.ops.pad import sources
from repdl_cpu._memory import huge_pages
from repdl_cpu._native import NATIVE
from repdl_cpu.isa import native


def pad(input: torch.Tensor, dim: int, left: int, right: int, mode: str) -> torch.Tensor:
    index = torch.tensor(sources(input.shape[dim], left, right, mode))
    output = layout.outputs("pad")(input, dim, left, right, mode)
    copied = input.index_select(dim, index).contiguous()
    NATIVE.call("canonical", input, (copied,), (copied,))
    return layout.stored(copied, output)


def pad_backward(grad: torch.Tensor, dim: int, left: int, right: int, mode: str) -> torch.Tensor:
    grad = grad.contiguous()
    shape = list(grad.shape)
    shape[dim] -= left + right
    output = huge_pages(grad.new_empty(shape))
    native(grad.dtype).pad_backward(
        grad.data_ptr(),
        output.data_ptr(),
        grad.shape[:dim].numel(),
        shape[dim],
        grad.shape[dim + 1 :].numel(),
        sources(shape[dim], left, right, mode),
        get_num_threads(),
    )
    return output


OPS = {"pad": pad, "pad_backward": pad_backward}
