"""Optimizers with a mean of gradients, whose rates follow from the number of the step: Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch

from repdl import ops
from repdl.optim._common import Group, State, StepOptimizer, scalar
from repdl.optim.power import bias_correction, power
from repdl.overrides.python_numbers import power as power_of_float


class Adamax(StepOptimizer, torch.optim.Adamax):
    """`torch.optim.Adamax` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect. `lr` and the other numbers may be
    tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: adamax_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adamax.html
    """

    _op = "adamax_step"

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"exp_avg": True, "exp_inf": True}

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        lr, eps, weight_decay = (scalar(group[name]) for name in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (scalar(beta) for beta in group["betas"])
        return lr / bias_correction(beta1, int(counts[0])), beta1, beta2, eps, weight_decay, group["maximize"]


class NAdam(StepOptimizer, torch.optim.NAdam):
    """`torch.optim.NAdam` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect. `lr` and the other numbers may be
    tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: nadam_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.NAdam.html
    """

    _op = "nadam_step"
    _counts = ("step", "mu_product")

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"exp_avg": True, "exp_avg_sq": True}

    def _initial(self, group: Group, param: torch.Tensor) -> State:
        return {**super()._initial(group, param), "mu_product": torch.tensor(1.0, dtype=torch.float32)}

    def _next(self, group: Group, params: Sequence[torch.Tensor], names: Sequence[str]) -> list[State]:
        states = super()._next(group, params, names)
        for state in states:
            product = state["mu_product"]
            if not isinstance(product, torch.Tensor):
                product = torch.tensor(product, device="cpu")
            state["mu_product"] = ops.mul(product, _momentum(group, float(state["step"])))
        return states

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        step, product = counts
        lr, eps, weight_decay = (scalar(group[name]) for name in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (scalar(beta) for beta in group["betas"])
        now, after = _momentum(group, step), _momentum(group, step + 1)
        return (
            *(lr, beta1, beta2, eps, weight_decay, bias_correction(beta2, int(step))),
            *(lr * (1.0 - now) / (1.0 - product), (lr * after) / (1.0 - product * after)),
            *(group["maximize"], group["decoupled_weight_decay"]),
        )


def _momentum(group: Group, step: float) -> float:
    """NAdam's momentum of a step."""
    beta1, decay = scalar(group["betas"][0]), scalar(group["momentum_decay"])
    return beta1 * (1.0 - 0.5 * power_of_float(0.96, step * decay))


class RAdam(StepOptimizer, torch.optim.RAdam):
    """`torch.optim.RAdam` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect. `lr` and the other numbers may be
    tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: radam_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.RAdam.html
    """

    _op = "radam_step"

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"exp_avg": True, "exp_avg_sq": True}

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        step = int(counts[0])
        lr, eps, weight_decay = (scalar(group[name]) for name in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (scalar(beta) for beta in group["betas"])
        return (
            *(lr, beta1, beta2, eps, weight_decay, bias_correction(beta1, step), bias_correction(beta2, step)),
            *(_rectification(beta2, step), group["maximize"], group["decoupled_weight_decay"]),
        )


def _rectification(beta2: float, step: int) -> float:
    """RAdam's factor of a step, 0 where the variance is not known well enough."""
    limit = 2 / (1 - beta2) - 1
    length = limit - 2.0 * step * power(beta2, step) / bias_correction(beta2, step)
    if not length > 5.0:
        return 0.0
    return sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))


__all__ = ["Adamax", "NAdam", "RAdam"]
