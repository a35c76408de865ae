"""Optimizers that divide by a mean of squared gradients: Adam; AdamW, which decouples its weight decay; RMSprop."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from repdl.optim._common import Call, Group, ReproducibleOptimizer, group_by_step, scalar
from repdl.optim.power import bias_correction

_TORCH_DECOUPLES = "decoupled_weight_decay" in signature(torch.optim.Adam.__init__).parameters


class _AdamSteps(ReproducibleOptimizer):
    """The steps of Adam and AdamW, which differ in their arguments alone."""

    _decoupled = False
    """Whether the weight decay is decoupled in a group that does not say so itself."""

    def _calls(self, group: Group) -> Iterator[Call]:
        lr, eps, weight_decay = (scalar(group[key]) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (scalar(beta) for beta in group["betas"])
        amsgrad = group["amsgrad"]
        averages = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if amsgrad else ()))
        made_with = f"amsgrad={amsgrad}"
        states = {p: self._next(p, averages, made_with) for p in group["params"] if p.grad is not None}
        for params in group_by_step(group, lambda param: float(states[param]["step"])).values():
            of = [states[param] for param in params]
            step = int(of[0]["step"])
            yield Call(
                "adam_step",
                (
                    params,
                    [param.grad for param in params],
                    [state["exp_avg"] for state in of],
                    [state["exp_avg_sq"] for state in of],
                    [state["max_exp_avg_sq"] for state in of] if amsgrad else [],
                    lr,
                    beta1,
                    beta2,
                    eps,
                    weight_decay,
                    bias_correction(beta1, step),
                    bias_correction(beta2, step),
                    amsgrad,
                    group["maximize"],
                    group.get("decoupled_weight_decay", self._decoupled),
                ),
                list(zip(params, of)),
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


class RMSprop(ReproducibleOptimizer, torch.optim.RMSprop):
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

    def _calls(self, group: Group) -> Iterator[Call]:
        names = ("lr", "alpha", "eps", "weight_decay", "momentum")
        numbers = [scalar(group[name]) for name in names]
        centered, momentum = group["centered"], numbers[-1] != 0
        averages = ("square_avg", *(("grad_avg",) if centered else ()), *(("momentum_buffer",) if momentum else ()))
        made_with = f"centered={centered} and momentum={group['momentum']}"
        states = {p: self._next(p, averages, made_with) for p in group["params"] if p.grad is not None}
        for params in group_by_step(group, lambda param: None).values():
            of = [states[param] for param in params]
            yield Call(
                "rmsprop_step",
                (
                    params,
                    [param.grad for param in params],
                    [state["square_avg"] for state in of],
                    [state["grad_avg"] for state in of] if centered else [],
                    [state["momentum_buffer"] for state in of] if momentum else [],
                    *numbers,
                    centered,
                    group["maximize"],
                ),
                list(zip(params, of)),
            )


__all__ = ["Adam", "AdamW", "RMSprop"]
