"""Glue of max_pool2d: contiguous planes, and the sizes of both sides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def max_pool2d(
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    outputs = layout.outputs("max_pool2d")(input, kernel_size, stride, padding, dilation, ceil_mode)
    planes, indices = (huge_pages(layout.row_major(t)) for t in outputs)
    input = input.contiguous()
    n, c, *size = input.shape
    options = list(zip(kernel_size, stride, padding, dilation))
    out = planes.shape[2:]
    native(input.dtype).max_pool2d(
        input.data_ptr(),
        planes.data_ptr(),
        indices.data_ptr(),
        n * c,
        [size[0], out[0], *options[0]],
        [size[1], out[1], *options[1]],
        get_num_threads(),
    )
    return layout.stored(planes, outputs[0]), layout.stored(indices, outputs[1])


def max_pool2d_backward(grad: torch.Tensor, indices: torch.Tensor, input_size: Sequence[int]) -> torch.Tensor:
    grad, indices = grad.contiguous(), indices.contiguous()
    n, c, *out = grad.shape
    output = huge_pages(grad.new_empty((n, c, *input_size)))
    native(grad.dtype).max_pool2d_backward(
        grad.data_ptr(),
        indices.data_ptr(),
        output.data_ptr(),
        n * c,
        out[0] * out[1],
        input_size[0] * input_size[1],
        get_num_threads(),
    )
    return output


OPS = {"max_pool2d": max_pool2d, "max_pool2d_backward": max_pool2d_backward}
