"""Glue of sgd_step: parameters as flat memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.config import get_num_threads
from repdl.ops._elements import flat_lists
from repdl_cpu.isa import native


def sgd_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momentum_buffers: Sequence[torch.Tensor],
    lr: float,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> None:
    columns = [params, grads, momentum_buffers] if momentum != 0 else [params, grads]
    flat, back = flat_lists("sgd_step", columns, [True, False, True])
    addresses = [[tensor.data_ptr() for tensor in column] for column in flat]
    counts = [tensor.numel() for tensor in flat[0]]
    dtype = params[0].dtype if params else torch.float32
    native(dtype).sgd_step(
        addresses,
        counts,
        lr,
        weight_decay,
        momentum,
        dampening,
        nesterov,
        maximize,
        first,
        get_num_threads(),
    )
    for tensor, copy in back:
        tensor.copy_(copy)


OPS = {"sgd_step": sgd_step}
