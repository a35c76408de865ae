"""The step of averaged SGD."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["asgd_step"]


_asgd_step = step(
    "asgd_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] axs, float eta, float lambd, float mu, float "
    "weight_decay, bool maximize) -> ()",
    "one step of averaged SGD",
    """
With p the parameter, g the gradient, a the element of axs:

1. If maximize: `g = -g`.
2. If weight_decay is not 0: `g = fma(rounded(weight_decay), p, g)`.
3. `p = fma(g, rounded(-eta), p * rounded(1 - lambd * eta))`.
4. If mu is 1: `a = p`; else `a = a + (p - a) * rounded(mu)`.

It is torch's step of a tensor by itself, written with `mul`, `add` and `sub` of `elementwise.md`. That of lists
(`foreach`) adds `lambd * p` to the gradient in place of the first product. The optimizer computes eta and mu of the
next step in double, with a correctly rounded power, and keeps them in torch's default dtype:
`eta = lr / ((1 + lambd * lr * step) ** alpha)` and `mu = 1 / max(1, step - t0)`.
""",
    cases={
        "options": {"eta": 0.01, "lambd": 1e-4},
        "switches": {"weight_decay": (0.0, 0.1), "mu": (1.0, 0.25), "maximize": (False, True)},
        "lists": {},
    },
)


@public("asgd_step", page="generated/torch.optim.ASGD", uncached="its op is cached")
def asgd_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    axs: Sequence[Tensor],
    *,
    eta: float,
    lambd: float,
    mu: float,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        eta: the learning rate of this step.
        mu: the weight of the parameter in the average.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if params or grads or axs:
        _asgd_step(params, grads, axs, eta, lambd, mu, weight_decay, maximize)
