"""Optimizers that divide by a root of squared gradients alone: Adagrad, Adadelta."""

from __future__ import annotations

from typing import Any

import torch

from repdl.optim._common import Group, State, StepOptimizer, scalar


class Adagrad(StepOptimizer, torch.optim.Adagrad):
    """`torch.optim.Adagrad` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` and `fused`
    choose an implementation in torch; here they are accepted and have no effect. `lr` and the other
    numbers may be tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True` and, at the step, sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: adagrad_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adagrad.html
    """

    _op = "adagrad_step"

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"sum": True}

    def _initial(self, group: Group, param: torch.Tensor) -> State:
        first = self.defaults["initial_accumulator_value"]
        total = torch.full_like(param, first, memory_format=torch.preserve_format)
        return {**super()._initial(group, param), "sum": total}

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        names = ("lr", "lr_decay", "eps", "weight_decay")
        lr, lr_decay, eps, weight_decay = (scalar(group[name]) for name in names)
        return lr / (1 + (counts[0] - 1) * lr_decay), eps, weight_decay, group["maximize"]


class Adadelta(StepOptimizer, torch.optim.Adadelta):
    """`torch.optim.Adadelta` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect. `lr` and the other numbers may be
    tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: adadelta_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adadelta.html
    """

    _op = "adadelta_step"
    _counts = ()

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"square_avg": True, "acc_delta": True}

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        names = ("lr", "rho", "eps", "weight_decay")
        return (*(scalar(group[name]) for name in names), group["maximize"])


__all__ = ["Adadelta", "Adagrad"]
