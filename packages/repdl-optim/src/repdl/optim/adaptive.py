"""Optimizers that divide by a mean of squared gradients: Adam; AdamW, which decouples its weight decay; RMSprop."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from repdl.optim._common import Group, StepOptimizer, scalar
from repdl.optim.power import bias_correction

_TORCH_DECOUPLES = "decoupled_weight_decay" in signature(torch.optim.Adam.__init__).parameters


class _AdamSteps(StepOptimizer):
    """The steps of Adam and AdamW, which differ in their arguments alone."""

    _decoupled = False
    """Whether the weight decay is decoupled in a group that does not say so itself."""

    _op = "adam_step"
    _made_with = ("amsgrad",)

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"exp_avg": True, "exp_avg_sq": True, "max_exp_avg_sq": group["amsgrad"]}

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        step = int(counts[0])
        lr, eps, weight_decay = (scalar(group[key]) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (scalar(beta) for beta in group["betas"])
        return (
            *(lr, beta1, beta2, eps, weight_decay),
            *(bias_correction(beta1, step), bias_correction(beta2, step)),
            *(group["amsgrad"], group["maximize"]),
            group.get("decoupled_weight_decay", cls._decoupled),
        )


class Adam(_AdamSteps, torch.optim.Adam):
    """`torch.optim.Adam` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` and `fused`
    choose an implementation in torch; here they are accepted and have no effect. `lr`,
    `betas`, `eps` and `weight_decay` may be tensors of one element: their values, as
    doubles, are used. The bits are not torch's own, which rounds in another order.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: adam_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        options: dict[str, Any] = {}
        if _TORCH_DECOUPLES:
            options["decoupled_weight_decay"] = decoupled_weight_decay
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            **options,
        )
        if not _TORCH_DECOUPLES:
            self.defaults["decoupled_weight_decay"] = decoupled_weight_decay
            for group in self.param_groups:
                group.setdefault("decoupled_weight_decay", decoupled_weight_decay)


class AdamW(_AdamSteps, torch.optim.AdamW):
    """`torch.optim.AdamW` with reproducible bits: same arguments and defaults, same state dict.

    `Adam` with `decoupled_weight_decay`, under the name and with the defaults of torch.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: adam_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html
    """

    _decoupled = True


class RMSprop(StepOptimizer, torch.optim.RMSprop):
    """`torch.optim.RMSprop` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect. `lr` and the other numbers may be
    tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: rmsprop_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html
    """

    _op = "rmsprop_step"
    _counts = ()
    _made_with = ("centered", "momentum")

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        momentum = scalar(group["momentum"]) != 0
        return {"square_avg": True, "grad_avg": group["centered"], "momentum_buffer": momentum}

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        names = ("lr", "alpha", "eps", "weight_decay", "momentum")
        return (*(scalar(group[name]) for name in names), group["centered"], group["maximize"])


__all__ = ["Adam", "AdamW", "RMSprop"]
