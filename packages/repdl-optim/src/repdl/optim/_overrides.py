"""torch's fused optimizer steps while `repdl.enable()` holds: RepDL's steps, which have the bits of single ops too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from repdl import ops
from repdl.optim import _steps  # noqa: F401  (declares)
from repdl.optim.power import bias_correction
from repdl.registry.aten import computes

Tensors = Sequence[Tensor]


def _unscaled(grads: Tensors, grad_scale: Tensor | None, found_inf: Tensor | None) -> bool:
    """Divide gradients by the scale of a GradScaler, in place; whether all of them are finite."""
    if found_inf is not None and bool(found_inf != 0):
        return False
    if grad_scale is not None:
        for grad in grads:
            grad.copy_(ops.div(grad, grad_scale))
    return True


def _stages(state_steps: Tensors) -> dict[float, list[int]]:
    """The places of the parameters that are at each step."""
    stages: dict[float, list[int]] = {}
    for place, count in enumerate(state_steps):
        stages.setdefault(float(count), []).append(place)
    return stages


def adam(decoupled: bool) -> Callable[..., None]:
    """`_fused_adam_`, or `_fused_adamw_`."""

    def step(
        params: Tensors,
        grads: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        max_exp_avg_sqs: Tensors,
        state_steps: Tensors,
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
        **options: Any,
    ) -> None:
        if not _unscaled(grads, grad_scale, found_inf):
            return
        columns = [params, grads, exp_avgs, exp_avg_sqs, *([max_exp_avg_sqs] if max_exp_avg_sqs else [])]
        for number, places in _stages(state_steps).items():
            first, second = (bias_correction(beta, int(number)) for beta in (beta1, beta2))
            param, grad, average, square, *most = ([column[i] for i in places] for column in columns)
            ops.adam_step(
                *(param, grad, average, square, most[0] if most else ()),
                lr=float(lr),
                beta1=beta1,
                beta2=beta2,
                bias_correction1=first,
                bias_correction2=second,
                decoupled_weight_decay=decoupled,
                **options,
            )

    return step


@computes("_fused_sgd_", as_given=True)
def sgd(
    params: Tensors,
    grads: Tensors,
    momentum_buffers: Tensors,
    *,
    lr: Any,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    **options: Any,
) -> None:
    """`_fused_sgd_`."""
    if _unscaled(grads, grad_scale, found_inf):
        buffers = momentum_buffers if options["momentum"] else []
        ops.sgd_step(params, grads, buffers, lr=float(lr), first=is_first_step, **options)


@computes("_fused_adagrad_", as_given=True)
def adagrad(
    params: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """`_fused_adagrad_`."""
    if not _unscaled(grads, grad_scale, found_inf):
        return
    for step, places in _stages(state_steps).items():
        lists = ([column[i] for i in places] for column in (params, grads, state_sums))
        rate = float(lr) / (1 + (step - 1) * lr_decay)
        ops.adagrad_step(*lists, lr=rate, eps=eps, weight_decay=weight_decay, maximize=maximize)


computes("_fused_adam_", as_given=True)(adam(decoupled=False))
computes("_fused_adamw_", as_given=True)(adam(decoupled=True))
