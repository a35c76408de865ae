"""Glue of gelu and silu: the elements as flat runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl_cuda.native import native, stream


def _op(name: str, operands: int) -> Callable[..., torch.Tensor]:
    def run(*args: Any) -> torch.Tensor:
        tensors, options = [t.contiguous() for t in args[:operands]], args[operands:]
        output = tensors[0].new_empty(tensors[0].shape)
        addresses = [t.data_ptr() for t in tensors]
        getattr(native(output), name)(*addresses, output.data_ptr(), output.numel(), *options, stream(output))
        return output

    return run


OPS = {
    "gelu": _op("gelu", 1),
    "gelu_backward": _op("gelu_backward", 2),
    "silu": _op("silu", 1),
    "silu_backward": _op("silu_backward", 2),
}
