"""The step of Adagrad."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["adagrad_step"]


_adagrad_step = step(
    "adagrad_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] state_sums, float lr, float eps, "
    "float weight_decay, bool maximize) -> ()",
    "one step of Adagrad",
    """
With p the parameter, g the gradient, s the element of state_sums. The optimizer computes
`lr = lr / (1 + (step - 1) * lr_decay)` in double.

1. If maximize: `g = -g`.
2. If weight_decay is not 0: `g = fma(rounded(weight_decay), p, g)`.
3. `s = s + g * g`.
4. `p = p + (g / (sqrt(s) + rounded(eps))) * rounded(-lr)`.

It is torch's step of a tensor by itself, and its fused one, written with `add`, `addcmul` and `addcdiv` of
`elementwise.md`. That of lists (`foreach`) multiplies g by -lr before it divides.
""",
    cases={
        "options": {"lr": 0.01, "eps": 1e-10},
        "switches": {"weight_decay": (0.0, 0.1), "maximize": (False, True)},
        "lists": {"state_sums": torch.abs},
    },
)


@public("adagrad_step", page="generated/torch.optim.Adagrad", uncached="its op is cached")
def adagrad_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    state_sums: Sequence[Tensor],
    *,
    lr: float,
    eps: float,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        lr: the learning rate of this step, after its decay.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if params or grads or state_sums:
        _adagrad_step(params, grads, state_sums, lr, eps, weight_decay, maximize)
