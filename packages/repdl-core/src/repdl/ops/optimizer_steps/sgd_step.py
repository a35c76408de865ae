"""The step of SGD."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from torch import Tensor

from repdl.ops.declare import Given, public, special_step, step, step_case

__all__ = ["sgd_step"]


_BOTH = (False, True)


def _combinations() -> dict[str, Given]:
    found = {}
    kinds = [(0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.3, False), (0.9, 0.0, True)]
    for (momentum, dampening, nesterov), first, decay, maximize in product(kinds, _BOTH, _BOTH, _BOTH):
        if first and not momentum:
            continue
        double = not maximize and (momentum, dampening, nesterov, first, decay) in _IN_DOUBLE
        ends = f"{'_nesterov' * nesterov}{'_first' * first}{'_decay' * decay}{'_maximize' * maximize}"
        found[f"momentum_{momentum}_dampening_{dampening}{ends}"] = step_case(
            shapes=[(7, 11), (3,)], momentum=momentum, dampening=dampening, nesterov=nesterov, first=first,
            weight_decay=0.01 if decay else 0.0, maximize=maximize, double=double,
        )  # fmt: skip
    return found


_IN_DOUBLE = {
    *((0.0, 0.0, False, False, decay) for decay in (False, True)),
    *((0.9, 0.3, False, True, decay) for decay in (False, True)),
    *((0.9, 0.0, True, True, decay) for decay in (False, True)),
    (0.9, 0.3, False, False, True),
    (0.9, 0.0, True, False, False),
}
"""Momentum, dampening, nesterov, first, weight decay."""

_CASES = {
    **_combinations(),
    **{
        f"special{'_nesterov' * nesterov}{'_first' * first}": special_step(
            weight_decay=0.5, nesterov=nesterov, first=first, double=not first
        )
        for nesterov, first in product(_BOTH, _BOTH)
    },
    "special_plain": special_step(momentum=0.0),
    "special_maximize": special_step(momentum=0.0, maximize=True),
    "subnormal": step_case(weight_decay=0.1),
    "subnormal_hyperparameters": step_case(lr=1e-42, weight_decay=1e-41, momentum=1e-40, dampening=0.0, scale=2.0**20),
    "overflow": step_case(lr=1e30),
    "lr_overflows_float32": step_case(momentum=0.0),
    "lr_0_negative_zero": step_case(values=(-0.0, 1.0), lr=0.0, momentum=0.0),
    "dim_0": step_case(weight_decay=0.1),
    # The gradient, then the buffer, is 2**-24 with a fused multiply-add, 0 without.
    "fused_weight_decay": step_case(
        values=(1 + 2.0**-12, -(1 + 2.0**-11)), lr=0.0, weight_decay=1 + 2.0**-12, momentum=0.5, first=True
    ),
    # b * momentum rounds to 1 + 2**-11 before g is added: the buffer becomes 0, not 2**-24.
    "momentum_rounds_first": step_case(values=(1.0, -(1 + 2.0**-11), 1 + 2.0**-12), lr=0.5, momentum=1 + 2.0**-12),
    # 1 - dampening is a double; rounding dampening to float32 first would give another share.
    "dampening_rounded_once": step_case(shapes=[(5, 5)], dampening=0.99999999, lr=1e6),
}


_sgd_step = step(
    "sgd_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, float lr, float weight_decay, "
    "float momentum, float dampening, bool nesterov, bool maximize, bool first) -> ()",
    "one step of stochastic gradient descent",
    """
With p the parameter, g the gradient, b the momentum buffer:

1. If maximize: `g = -g`.
2. If weight_decay is not 0: `g = fma(rounded(weight_decay), p, g)`.
3. If momentum is not 0: if first, `b = g` (whatever b held); else `b = fma(g, rounded(1 - dampening), b *
   rounded(momentum))`.
4. If momentum is not 0: if nesterov, `g = fma(b, rounded(momentum), g)`; else `g = b`.
5. `p = fma(g, rounded(-lr), p)`.

This is the order of torch's SGD, with the fused multiply-add that its vectorised `add(alpha=...)` uses on CPUs that
have one, for every element and on every machine.
""",
    optional={"momentum_buffers": ("if momentum is not 0", lambda momentum: momentum != 0)},
    cases={
        "options": {
            "lr": 0.1,
            "weight_decay": 0.0,
            "momentum": 0.9,
            "dampening": 0.0,
            "nesterov": False,
            "maximize": False,
            "first": False,
        },
        "lists": {},
        "cases": _CASES,
    },
)


@public(
    "sgd_step",
    page="generated/torch.optim.SGD",
    uncached="its op is cached",
)
def sgd_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    momentum_buffers: Sequence[Tensor] = (),
    *,
    lr: float,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    first: bool = False,
) -> None:
    """Update `params` and `momentum_buffers` in place, float32 or float64, tensors of any shape and strides.

    Args:
        momentum_buffers: one tensor a parameter if `momentum` is not 0, else empty.
        first: the buffers hold nothing yet; they are set to the gradient.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if not (params or grads or momentum_buffers):
        return
    _sgd_step(params, grads, momentum_buffers, lr, weight_decay, momentum, dampening, nesterov, maximize, first)
