"""The step of RMSprop."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["rmsprop_step"]


_rmsprop_step = step(
    "rmsprop_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] grad_avgs, "
    "Tensor(d!)[] momentum_buffers, float lr, float alpha, float eps, float weight_decay, float momentum, "
    "bool centered, bool maximize) -> ()",
    "one step of RMSprop",
    """
With p the parameter, g the gradient, v, a and b the elements of square_avgs, grad_avgs and momentum_buffers:

1. If maximize: `g = -g`.
2. If weight_decay is not 0: `g = fma(rounded(weight_decay), p, g)`.
3. `v = v * rounded(alpha) + (g * g) * rounded(1 - alpha)`.
4. If centered: `a = fma(g, rounded(1 - alpha), a * rounded(alpha))`.
5. `q = g / (sqrt(w) + rounded(eps))`, where w is v, or if centered `v - a * a`.
6. If momentum is not 0: `b = b * rounded(momentum) + q` and `p = fma(b, rounded(-lr), p)`; else
   `p = p + q * rounded(-lr)`.

It is torch's RMSprop, written with `mul`, `add`, `addcmul`, `addcdiv` and `lerp` of `elementwise.md`.
""",
    optional={
        "grad_avgs": ("if centered", lambda centered: centered),
        "momentum_buffers": ("if momentum is not 0", lambda momentum: momentum != 0),
    },
    cases={
        "options": {"lr": 0.01, "alpha": 0.99, "eps": 1e-8},
        "switches": {
            "weight_decay": (0.0, 0.1),
            "momentum": (0.0, 0.9),
            "centered": (False, True),
            "maximize": (False, True),
        },
        "lists": {"square_avgs": torch.abs, "grad_avgs": lambda t: t / 16},
    },
)


@public(
    "rmsprop_step",
    page="generated/torch.optim.RMSprop",
    uncached="its op is cached",
)
def rmsprop_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    square_avgs: Sequence[Tensor],
    grad_avgs: Sequence[Tensor] = (),
    momentum_buffers: Sequence[Tensor] = (),
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    maximize: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        grad_avgs: one tensor a parameter with `centered`, else empty.
        momentum_buffers: one tensor a parameter if `momentum` is not 0, else empty.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if not (params or grads or square_avgs or grad_avgs or momentum_buffers):
        return
    _rmsprop_step(
        params,
        grads,
        square_avgs,
        grad_avgs,
        momentum_buffers,
        lr,
        alpha,
        eps,
        weight_decay,
        momentum,
        centered,
        maximize,
    )
