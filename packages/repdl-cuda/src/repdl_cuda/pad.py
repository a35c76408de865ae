"""Glue of pad: the padded dimension between what is outside and what is inside of it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repdl_cuda.native import native, stream


def _op(name: str, change: int) -> Callable[..., torch.Tensor]:
    def run(tensor: torch.Tensor, dim: int, left: int, right: int, mode: str) -> torch.Tensor:
        tensor = tensor.contiguous()
        shape = list(tensor.shape)
        shape[dim] += change * (left + right)
        output = tensor.new_empty(shape)
        size = min(shape[dim], tensor.shape[dim])
        getattr(native(tensor), name)(
            tensor.data_ptr(), output.data_ptr(), tensor.shape[:dim].numel(), size, tensor.shape[dim + 1 :].numel(),
            left, right, mode, stream(tensor),
        )
        return output

    return run


OPS = {"pad": _op("pad", 1), "pad_backward": _op("pad_backward", -1)}
