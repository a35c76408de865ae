"""The step of RAdam."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["radam_step"]


_radam_step = step(
    "radam_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, float "
    "lr, float beta1, float beta2, float eps, float weight_decay, float bias_correction1, float "
    "bias_correction2, float rect, bool maximize, bool decoupled_weight_decay) -> ()",
    "one step of RAdam",
    """
With p the parameter, g the gradient, m and v the elements of exp_avgs and exp_avg_sqs. The optimizer computes in
double, with correctly rounded powers, `bias_correction = 1 - beta ** step`, `rho_inf = 2 / (1 - beta2) - 1`,
`rho = rho_inf - ((2 * step) * (beta2 ** step)) / bias_correction2`, and rect: 0 unless rho > 5, else
`sqrt((((rho - 4) * (rho - 2)) * rho_inf) / (((rho_inf - 4) * (rho_inf - 2)) * rho))`.

1. If maximize: `g = -g`.
2. If weight_decay is not 0: with decoupled_weight_decay `p = p * rounded(1 - lr * weight_decay)`, else `g =
   fma(rounded(weight_decay), p, g)`.
3. `m = fma(g, rounded(1 - beta1), m * rounded(1 - (1 - beta1)))`.
4. `v = v * rounded(beta2) + (g * g) * rounded(1 - beta2)`.
5. `r = (m / rounded(bias_correction1)) * rounded(lr)`.
6. If rect is not 0: `r = (r * ((1 / (sqrt(v) + rounded(eps))) * rounded(sqrt(bias_correction2)))) * rounded(rect)`.
7. `p = p - r`.

It is torch's step of a tensor by itself, written with `mul`, `add`, `lerp`, `addcmul`, `div`, `sqrt` and `reciprocal`
of `elementwise.md`. That of lists (`foreach`) multiplies m by one quotient.
""",
    cases={
        "options": {
            "lr": 0.01,
            "beta1": 0.9,
            "beta2": 0.999,
            "eps": 1e-8,
            "bias_correction1": 0.271,
            "bias_correction2": 0.002997001,
        },
        "switches": {
            "weight_decay": (0.0, 0.1),
            "decoupled_weight_decay": (False, True),
            "maximize": (False, True),
            "rect": (0.0, 0.25),
        },
        "most": {"decoupled_weight_decay": False},
        "lists": {"exp_avg_sqs": torch.abs},
        # 1 - (1 - 0.1) is not 0.1.
        "cases": {"small_beta1": {"shapes": [(70,)], "beta1": 0.1, "double": True}},
    },
)


@public("radam_step", page="generated/torch.optim.RAdam", uncached="its op is cached")
def radam_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    bias_correction1: float,
    bias_correction2: float,
    rect: float,
    weight_decay: float = 0.0,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        bias_correction1, bias_correction2: `1 - beta ** step`, with a correctly rounded power.
        rect: the rectification of this step, 0 where there is none.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if params or grads or exp_avgs or exp_avg_sqs:
        _radam_step(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            lr,
            beta1,
            beta2,
            eps,
            weight_decay,
            bias_correction1,
            bias_correction2,
            rect,
            maximize,
            decoupled_weight_decay,
        )
