"""Glue of pad: the padded dimension between what is outside and what is inside of it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repdl import layout
from repdl_cuda.native import native, stream


def _op(name: str) -> Callable[..., torch.Tensor]:
    empty = layout.outputs(name)

    def run(tensor: torch.Tensor, dim: int, left: int, right: int, mode: str) -> torch.Tensor:
        output = empty(tensor, dim, left, right, mode)
        rows, tensor = layout.row_major(output), tensor.contiguous()
        size = min(rows.shape[dim], tensor.shape[dim])
        getattr(native(tensor), name)(
            tensor.data_ptr(),
            rows.data_ptr(),
            tensor.shape[:dim].numel(),
            size,
            tensor.shape[dim + 1 :].numel(),
            left,
            right,
            mode,
            stream(tensor),
        )
        return layout.stored(rows, output)

    return run


OPS = {"pad": _op("pad"), "pad_backward": _op("pad_backward")}
