"""The step of NAdam."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["nadam_step"]


_nadam_step = step(
    "nadam_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, float "
    "lr, float beta1, float beta2, float eps, float weight_decay, float bias_correction2, float grad_lr, "
    "float exp_avg_lr, bool maximize, bool decoupled_weight_decay) -> ()",
    "one step of NAdam",
    """
With p the parameter, g the gradient, m and v the elements of exp_avgs and exp_avg_sqs. The optimizer computes in
double, with correctly rounded powers, `bias_correction2 = 1 - beta2 ** step`,
`mu(t) = beta1 * (1 - 0.5 * (0.96 ** (t * momentum_decay)))`, `grad_lr = (lr * (1 - mu(step))) / (1 - mu_product)` and
`exp_avg_lr = (lr * mu(step + 1)) / (1 - mu_product * mu(step + 1))`; mu_product, which it multiplies by mu(step) at
each step, is kept in torch's default dtype.

1. If maximize: `g = -g`.
2. If weight_decay is not 0: with decoupled_weight_decay `p = p * rounded(1 - lr * weight_decay)`, else `g =
   fma(rounded(weight_decay), p, g)`.
3. `m = fma(g, rounded(1 - beta1), m * rounded(1 - (1 - beta1)))`.
4. `v = v * rounded(beta2) + (g * g) * rounded(1 - beta2)`.
5. `d = sqrt(v / rounded(bias_correction2)) + rounded(eps)`.
6. `p = p + (g / d) * rounded(-grad_lr)`.
7. `p = p + (m / d) * rounded(-exp_avg_lr)`.

It is torch's step of a tensor by itself, written with `mul`, `add`, `lerp`, `addcmul`, `div`, `sqrt` and `addcdiv` of
`elementwise.md`. That of lists (`foreach`) divides the root by a root.
""",
    cases={
        "options": {
            "lr": 0.002,
            "beta1": 0.9,
            "beta2": 0.999,
            "eps": 1e-8,
            "bias_correction2": 0.002997001,
            "grad_lr": 0.0018,
            "exp_avg_lr": 0.0011,
        },
        "switches": {
            "weight_decay": (0.0, 0.1),
            "decoupled_weight_decay": (False, True),
            "maximize": (False, True),
        },
        "most": {"decoupled_weight_decay": False},
        "lists": {"exp_avg_sqs": torch.abs},
        # 1 - (1 - 0.1) is not 0.1.
        "cases": {"small_beta1": {"shapes": [(70,)], "beta1": 0.1, "double": True}},
    },
)


@public("nadam_step", page="generated/torch.optim.NAdam", uncached="its op is cached")
def nadam_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    bias_correction2: float,
    grad_lr: float,
    exp_avg_lr: float,
    weight_decay: float = 0.0,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        bias_correction2: `1 - beta2 ** step`, with a correctly rounded power.
        grad_lr, exp_avg_lr: the rates of the gradient and of its mean.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if params or grads or exp_avgs or exp_avg_sqs:
        _nadam_step(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            lr,
            beta1,
            beta2,
            eps,
            weight_decay,
            bias_correction2,
            grad_lr,
            exp_avg_lr,
            maximize,
            decoupled_weight_decay,
        )
