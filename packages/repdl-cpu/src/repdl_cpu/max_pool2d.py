"""Glue of max_pool2d: contiguous planes, and the sizes of both sides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.config import get_num_threads
from repdl.ops.max_pool2d import pooled_size
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def max_pool2d(
    input: torch.Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    input = input.contiguous()
    n, c, *size = input.shape
    options = list(zip(kernel_size, stride, padding, dilation))
    out = [pooled_size(size[i], *options[i], ceil_mode) for i in (0, 1)]
    output = huge_pages(input.new_empty((n, c, *out)))
    indices = huge_pages(torch.empty_like(output, dtype=torch.int64))
    native(input.dtype).max_pool2d(
        input.data_ptr(), output.data_ptr(), indices.data_ptr(), n * c,
        [size[0], out[0], *options[0]], [size[1], out[1], *options[1]], get_num_threads(),
    )
    return output, indices


def max_pool2d_backward(grad: torch.Tensor, indices: torch.Tensor, input_size: Sequence[int]) -> torch.Tensor:
    grad, indices = grad.contiguous(), indices.contiguous()
    n, c, *out = grad.shape
    output = huge_pages(grad.new_empty((n, c, *input_size)))
    native(grad.dtype).max_pool2d_backward(
        grad.data_ptr(), indices.data_ptr(), output.data_ptr(), n * c, out[0] * out[1],
        input_size[0] * input_size[1], get_num_threads(),
    )
    return output


OPS = {"max_pool2d": max_pool2d, "max_pool2d_backward": max_pool2d_backward}
