"""Glue of gelu and silu: the elements as flat runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def _op(name: str, operands: int) -> Callable[..., torch.Tensor]:
    def run(*args: Any) -> torch.Tensor:
        kernel = "_".join([name, *args[operands:]])  # gelu_none, gelu_backward_tanh
        tensors = [t.contiguous() for t in args[:operands]]
        output = huge_pages(tensors[0].new_empty(tensors[0].shape))
        addresses = [t.data_ptr() for t in tensors]
        getattr(native(), kernel)(*addresses, output.data_ptr(), output.numel(), get_num_threads())
        return output

    return run


OPS = {
    "gelu": _op("gelu", 1),
    "gelu_backward": _op("gelu_backward", 2),
    "silu": _op("silu", 1),
    "silu_backward": _op("silu_backward", 2),
}
