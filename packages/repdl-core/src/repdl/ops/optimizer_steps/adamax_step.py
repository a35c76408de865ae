"""The step of Adamax."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["adamax_step"]


_adamax_step = step(
    "adamax_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_infs, float lr, "
    "float beta1, float beta2, float eps, float weight_decay, bool maximize) -> ()",
    "one step of Adamax",
    """
With p the parameter, g the gradient, m and u the elements of exp_avgs and exp_infs. The optimizer computes
`lr = lr / (1 - beta1 ** step)` in double, with a correctly rounded power.

1. If maximize: `g = -g`.
2. If weight_decay is not 0: `g = fma(rounded(weight_decay), p, g)`.
3. `m = fma(g, rounded(1 - beta1), m * rounded(1 - (1 - beta1)))`.
4. `u = maximum(u * rounded(beta2), |g| + rounded(eps))`, with `maximum` of `elementwise.md`.
5. `p = p + (m / u) * rounded(-lr)`.

It is torch's Adamax, written with `mul`, `add`, `lerp`, `maximum` and `addcdiv` of `elementwise.md`.
""",
    cases={
        "options": {"lr": 0.02, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
        "switches": {"weight_decay": (0.0, 0.1), "maximize": (False, True)},
        "lists": {"exp_infs": torch.abs},
        # 1 - (1 - 0.1) is not 0.1.
        "cases": {"small_beta1": {"shapes": [(70,)], "beta1": 0.1, "double": True}},
    },
)


@public("adamax_step", page="generated/torch.optim.Adamax", uncached="its op is cached")
def adamax_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_infs: Sequence[Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        lr: the learning rate divided by the bias correction of this step.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if params or grads or exp_avgs or exp_infs:
        _adamax_step(params, grads, exp_avgs, exp_infs, lr, beta1, beta2, eps, weight_decay, maximize)
