"""adam_step: one step of Adam or AdamW over a list of parameters, in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import registry
from repdl.ops._step import check_lists


def _check(
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
    check_lists(
        "adam_step",
        params,
        grads=(grads, True),
        exp_avgs=(exp_avgs, True),
        exp_avg_sqs=(exp_avg_sqs, True),
        max_exp_avg_sqs=(max_exp_avg_sqs, amsgrad),
    )


def _fake(*args: object) -> None:
    return None


_op = registry.define(
    "adam_step",
    "(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
    "Tensor(d!)[] max_exp_avg_sqs, float lr, float beta1, float beta2, float eps, float weight_decay, "
    "float bias_correction1, float bias_correction2, bool amsgrad, bool maximize, "
    "bool decoupled_weight_decay) -> ()",
    check=_check,
    fake=_fake,
)


def adam_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    max_exp_avg_sqs: Sequence[torch.Tensor] = (),
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    bias_correction1: float,
    bias_correction2: float,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        max_exp_avg_sqs: one tensor a parameter with `amsgrad`, else empty.
        bias_correction1, bias_correction2: `1 - beta ** step`, with a correctly rounded
            power: the C library's differs between systems.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.

    Contract: adam_step v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
    """
    if not (params or grads or exp_avgs or exp_avg_sqs or max_exp_avg_sqs):
        return
    _op(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        lr,
        beta1,
        beta2,
        eps,
        weight_decay,
        bias_correction1,
        bias_correction2,
        amsgrad,
        maximize,
        decoupled_weight_decay,
    )
