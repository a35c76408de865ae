"""Glue of adam_step: parameters as flat memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.ops._elements import flat_lists
from repdl_cuda.native import native, stream


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
    if not params:
        return
    columns = [params, grads, exp_avgs, exp_avg_sqs]
    if amsgrad:
        columns.append(max_exp_avg_sqs)
    flat, back = flat_lists("adam_step", columns, [True, False, True, True, True])
    addresses = [[tensor.data_ptr() for tensor in column] for column in flat]
    counts = [tensor.numel() for tensor in flat[0]]
    native(params[0]).adam_step(
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
        stream(params[0]),
    )
    for tensor, copy in back:
        tensor.copy_(copy)


OPS = {"adam_step": adam_step}
