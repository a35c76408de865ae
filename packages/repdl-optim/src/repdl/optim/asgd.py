"""ASGD: stochastic gradient descent with an average of parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from repdl.optim._common import Call, Group, State, StepOptimizer, scalar
from repdl.overrides.python_numbers import power


class ASGD(StepOptimizer, torch.optim.ASGD):
    """`torch.optim.ASGD` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect. `lr` and the other numbers may be
    tensors of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True`, `capturable=True` and, at the step,
            sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: asgd_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.ASGD.html
    """

    _op = "asgd_step"
    _counts = ("eta", "mu")

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        return {"ax": True}

    def _initial(self, group: Group, param: torch.Tensor) -> State:
        rates = {"eta": scalar(group["lr"]), "mu": 1.0}
        return {
            **super()._initial(group, param),
            **{name: torch.tensor(rate, dtype=torch.float32, device=param.device) for name, rate in rates.items()},
        }

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        eta, mu = counts
        return eta, scalar(group["lambd"]), mu, scalar(group["weight_decay"]), group["maximize"]

    def _calls(self, group: Group) -> Iterator[Call]:
        for call in super()._calls(group):
            for _, state in call.state:
                eta, mu = _rates(group, float(state["step"]))
                state["eta"] = torch.as_tensor(eta, device="cpu").to(state["eta"])
                state["mu"] = torch.as_tensor(mu, device="cpu").to(state["mu"])
            yield call


def _rates(group: Group, step: float) -> tuple[float, float]:
    """eta and mu after a step."""
    lr, lambd, alpha, t0 = (scalar(group[name]) for name in ("lr", "lambd", "alpha", "t0"))
    return lr / power(1 + lambd * lr * step, alpha), 1 / max(1, step - t0)


__all__ = ["ASGD"]
