"""Rprop: steps whose size follows from the signs of gradients."""

from __future__ import annotations

from typing import Any

import torch

from repdl.optim._common import Group, State, StepOptimizer, scalar


class Rprop(StepOptimizer, torch.optim.Rprop):
    """`torch.optim.Rprop` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect. `lr` and the other numbers may be
    tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: rprop_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Rprop.html
    """

    _op = "rprop_step"
    _counts = ()

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"prev": True, "step_size": True}

    def _initial(self, group: Group, param: torch.Tensor) -> State:
        size = torch.full_like(param, scalar(group["lr"]), memory_format=torch.preserve_format)
        return {**super()._initial(group, param), "step_size": size}

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        numbers = (*group["etas"], *group["step_sizes"])
        return (*(scalar(number) for number in numbers), group["maximize"])


__all__ = ["Rprop"]
