"""Glue of max_pool2d: contiguous planes, and the sizes of both sides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import layout
from repdl_cuda.native import native, stream


def max_pool2d(
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride_: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    outputs = layout.outputs("max_pool2d")(input, kernel_size, stride_, padding, dilation, ceil_mode)
    planes, indices = (layout.row_major(t) for t in outputs)
    input = input.contiguous()
    n, c, *size = input.shape
    options = list(zip(kernel_size, stride_, padding, dilation))
    out = planes.shape[2:]
    native(input).max_pool2d(
        input.data_ptr(),
        planes.data_ptr(),
        indices.data_ptr(),
        n * c,
        [size[0], out[0], *options[0]],
        [size[1], out[1], *options[1]],
        stream(input),
    )
    return layout.stored(planes, outputs[0]), layout.stored(indices, outputs[1])


def max_pool2d_backward(grad: torch.Tensor, indices: torch.Tensor, input_size: Sequence[int]) -> torch.Tensor:
    grad, indices = grad.contiguous(), indices.contiguous()
    n, c, *out = grad.shape
    output = grad.new_empty((n, c, *input_size))
    claims = torch.empty_like(output, dtype=torch.int32)
    native(grad).max_pool2d_backward(
        grad.data_ptr(),
        indices.data_ptr(),
        output.data_ptr(),
        claims.data_ptr(),
        n * c,
        out[0] * out[1],
        input_size[0] * input_size[1],
        stream(grad),
    )
    return output


OPS = {"max_pool2d": max_pool2d, "max_pool2d_backward": max_pool2d_backward}
