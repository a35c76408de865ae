"""torch's step of Adafactor for single tensors, of RepDL's ops, with correctly rounded powers.

torch computes `step**beta2_decay` and roots of sizes by Python's `**`, whose last bit is the C library's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from repdl import ops
from repdl.overrides.python_numbers import power


@dataclass(frozen=True)
class Numbers:
    """The hyperparameters of a step, as doubles."""

    lr: float
    beta2_decay: float
    eps1: float | None
    eps2: float
    d: float
    weight_decay: float
    maximize: bool


@dataclass(frozen=True)
class Adapted:
    """What a step writes: the parameter, and row_var and col_var, or variance."""

    param: Tensor
    factors: tuple[Tensor, ...]


def adapted(param: Tensor, grad: Tensor, factors: Sequence[Tensor], step: float, numbers: Numbers) -> Adapted:
    """A step of one parameter; changes nothing.

    Args:
        factors: row_var and col_var of a gradient with two dimensions or more, else variance.
        step: its number, from 1.
    """
    lr, d = numbers.lr, numbers.d
    grad = ops.neg(grad) if numbers.maximize else grad
    eps1 = torch.finfo(param.dtype).eps if numbers.eps1 is None else numbers.eps1
    weight = power(step, numbers.beta2_decay)
    size = max(numbers.eps2, ops.norm(param, 2).item() / math.sqrt(param.numel())) * min(lr, 1 / math.sqrt(step))
    moved = ops.mul(param, 1 - lr * numbers.weight_decay) if numbers.weight_decay != 0 else param
    if grad.dim() > 1:
        rows, columns = (ops.lerp(f, _mean_square(grad, dim), weight) for f, dim in zip(factors, (-1, -2)))
        mean = ops.clamp(ops.mean(rows, -2, keepdim=True), min=eps1)
        variance = ops.div(ops.matmul(rows, columns), mean)
        kept: tuple[Tensor, ...] = (rows, columns)
    else:
        variance = ops.lerp(factors[0], ops.mul(grad, grad), weight)
        kept = (variance,)
    update = ops.mul(ops.rsqrt(ops.clamp(variance, min=eps1 * eps1)), grad)
    clipped = max(1.0, ops.norm(update, 2).item() / (math.sqrt(update.numel()) * d))
    return Adapted(ops.add(moved, update, alpha=-size / clipped), kept)


def _mean_square(grad: Tensor, dim: int) -> Tensor:
    return ops.div(ops.square(ops.norm(grad, dim=dim, keepdim=True)), grad.size(dim))


def single_tensor_adafactor(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    row_vars: Sequence[Tensor | None],
    col_vars: Sequence[Tensor | None],
    variances: Sequence[Tensor | None],
    state_steps: Sequence[Tensor],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    *,
    lr: Any,
    has_complex: bool,
    **numbers: Any,
) -> None:
    """In the place of torch's functions of a step while `repdl.enable()` holds."""
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    rate = float(lr)
    for param, grad, *held, step in zip(params, grads, row_vars, col_vars, variances, state_steps):
        step += 1
        factors = [factor for factor in held if factor is not None]
        new = adapted(param, grad, factors, step.item(), Numbers(lr=rate, **numbers))
        for place, value in zip((param, *factors), (new.param, *new.factors)):
            place.copy_(value)


__all__ = ["Adapted", "Numbers", "adapted", "single_tensor_adafactor"]
