"""The step of Adadelta."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["adadelta_step"]


_adadelta_step = step(
    "adadelta_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] acc_deltas, "
    "float lr, float rho, float eps, float weight_decay, bool maximize) -> ()",
    "one step of Adadelta",
    """
With p the parameter, g the gradient, v and u the elements of square_avgs and acc_deltas:

1. If maximize: `g = -g`.
2. If weight_decay is not 0: `g = fma(rounded(weight_decay), p, g)`.
3. `v = v * rounded(rho) + (g * g) * rounded(1 - rho)`.
4. `d = (sqrt(u + rounded(eps)) / sqrt(v + rounded(eps))) * g`.
5. `u = u * rounded(rho) + (d * d) * rounded(1 - rho)`.
6. `p = fma(d, rounded(-lr), p)`.

It is torch's Adadelta, written with `mul`, `add`, `addcmul`, `sqrt` and `div` of `elementwise.md`.
""",
    cases={
        "options": {"lr": 1.0, "rho": 0.9, "eps": 1e-6},
        "switches": {"weight_decay": (0.0, 0.1), "maximize": (False, True)},
        "lists": {"square_avgs": torch.abs, "acc_deltas": torch.abs},
    },
)


@public("adadelta_step", page="generated/torch.optim.Adadelta", uncached="its op is cached")
def adadelta_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    square_avgs: Sequence[Tensor],
    acc_deltas: Sequence[Tensor],
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if params or grads or square_avgs or acc_deltas:
        _adadelta_step(params, grads, square_avgs, acc_deltas, lr, rho, eps, weight_decay, maximize)
