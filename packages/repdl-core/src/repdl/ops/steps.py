"""The steps of optimizers: one registered op each, which updates lists of tensors in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.ops._step import step

__all__ = ["adam_step", "rmsprop_step", "sgd_step"]

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
)
_adam_step = step(
    "adam_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
    "Tensor(d!)[] max_exp_avg_sqs, float lr, float beta1, float beta2, float eps, float weight_decay, "
    "float bias_correction1, float bias_correction2, bool amsgrad, bool maximize, "
    "bool decoupled_weight_decay) -> ()",
    "one step of Adam, or of AdamW with decoupled_weight_decay",
    """
With p the parameter, g the gradient, m, v and x the elements of exp_avgs, exp_avg_sqs and max_exp_avg_sqs. The
optimizer computes `bias_correction = 1 - beta ** step` in double, with `beta ** step` correctly rounded.

1. If maximize: `g = -g`.
2. If weight_decay is not 0: with decoupled_weight_decay `p = p * rounded(1 - lr * weight_decay)`, else `g =
   fma(rounded(weight_decay), p, g)`.
3. `m = fma(g, rounded(1 - beta1), m * rounded(beta1))`.
4. `v = v * rounded(beta2) + (g * g) * rounded(1 - beta2)`.
5. With amsgrad: `x = x if x > v or x is NaN, else v`, and x takes the place of v in step 6.
6. `d = sqrt(v) / rounded(sqrt(bias_correction2)) + rounded(eps)`.
7. `p = p + (m / d) * rounded(-(lr / bias_correction1))`.

The order is that of Microsoft RepDL 0.1.1, whose published bits were made with the fused multiply-add of torch's
vectorised `add(alpha=...)`; it is written here as steps 2 and 3. torch's own Adam rounds otherwise: `lerp` in step 3,
`addcmul` in step 4.
""",
    optional={"max_exp_avg_sqs": ("with amsgrad", lambda amsgrad: amsgrad)},
)
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


def sgd_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momentum_buffers: Sequence[torch.Tensor] = (),
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

    Contract: sgd_step v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """
    if not (params or grads or momentum_buffers):
        return
    _sgd_step(params, grads, momentum_buffers, lr, weight_decay, momentum, dampening, nesterov, maximize, first)


def adam_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    max_exp_avg_sqs: Sequence[torch.Tensor] = (),
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    bias_correction1: float,
    bias_correction2: float,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        max_exp_avg_sqs: one tensor a parameter with `amsgrad`, else empty.
        bias_correction1, bias_correction2: `1 - beta ** step`, with a correctly rounded
            power: the C library's differs between systems.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.

    Contract: adam_step v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
    """
    if not (params or grads or exp_avgs or exp_avg_sqs or max_exp_avg_sqs):
        return
    _adam_step(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        lr,
        beta1,
        beta2,
        eps,
        weight_decay,
        bias_correction1,
        bias_correction2,
        amsgrad,
        maximize,
        decoupled_weight_decay,
    )


def rmsprop_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    square_avgs: Sequence[torch.Tensor],
    grad_avgs: Sequence[torch.Tensor] = (),
    momentum_buffers: Sequence[torch.Tensor] = (),
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

    Contract: rmsprop_step v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html
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
