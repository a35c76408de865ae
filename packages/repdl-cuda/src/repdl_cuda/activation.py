"""Glue of gelu and silu: the elements as flat runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl import layout
from repdl_cuda.native import native, stream


def _op(name: str, operands: int) -> Callable[..., torch.Tensor]:
    empty = layout.outputs(name)

    def run(*args: Any) -> torch.Tensor:
        output, options = empty(*args), args[operands:]
        tensors = [layout.matching(t, output) for t in args[:operands]]
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
