"""Glue of softmax and log_softmax: rows along the last dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl import layout
from repdl.contract import Contract
from repdl_cuda.native import native, stream


def _op(name: str) -> Callable[..., torch.Tensor]:
    def run(*args: Any) -> torch.Tensor:
        *tensors, dim, contract = args
        shape = tensors[0].shape
        moves = len(shape) > 0 and dim != len(shape) - 1
        rows = [(t.movedim(dim, -1) if moves else t).contiguous() for t in tensors]
        output = rows[0].new_empty(rows[0].shape)
        if output.numel():
            chosen = Contract.parse(contract)
            n = shape[dim] if shape else 1
            getattr(native(output), name)(
                *(t.data_ptr() for t in rows),
                output.data_ptr(),
                output.numel() // n,
                n,
                chosen.sum_lanes,
                chosen.sum_block,
                stream(output),
            )
        return layout.stored(output.movedim(-1, dim), output.new_empty(shape)) if moves else output

    return run


OPS = {name: _op(name) for name in ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")}
