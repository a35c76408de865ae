"""Glue of gelu and silu: the elements as flat runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def _op(name: str, operands: int) -> Callable[..., torch.Tensor]:
    empty = layout.outputs(name)

    def run(*args: Any) -> torch.Tensor:
        kernel = "_".join([name, *args[operands:]])  # gelu_none, gelu_backward_tanh
        tensors = list(args[:operands])
        if all(t.is_contiguous() for t in tensors):
            output = huge_pages(tensors[0].new_empty(tensors[0].shape))
        else:
            output = huge_pages(empty(*args))
            tensors = [layout.matching(t, output) for t in tensors]
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
