"""Glue of adam_step: parameters as flat memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.config import get_num_threads
from repdl.ops._elements import flat_lists
from repdl_cpu.isa import native


def adam_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    max_exp_avg_sqs: Sequence[torch.Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction1: float,
    bias_correction2: float,
    amsgrad: bool,
    maximize: bool,
    decoupled_weight_decay: bool,
) -> None:
    columns = [params, grads, exp_avgs, exp_avg_sqs]
    if amsgrad:
        columns.append(max_exp_avg_sqs)
    flat, back = flat_lists("adam_step", columns, [True, False, True, True, True])
    addresses = [[tensor.data_ptr() for tensor in column] for column in flat]
    counts = [tensor.numel() for tensor in flat[0]]
    dtype = params[0].dtype if params else torch.float32
    native(dtype).adam_step(
        addresses,
        counts,
        lr,
        beta1,
        beta2,
        eps,
        weight_decay,
        bias_correction1,
        bias_correction2,
        maximize,
        decoupled_weight_decay,
        get_num_threads(),
    )
    for tensor, copy in back:
        tensor.copy_(copy)


OPS = {"adam_step": adam_step}
