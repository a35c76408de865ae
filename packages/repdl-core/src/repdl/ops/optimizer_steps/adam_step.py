"""The step of Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from repdl.ops.declare import Given, public, special_step, step, step_case

__all__ = ["adam_step"]


def _decay(kind: str, size: float) -> Given:
    return {"weight_decay": size if kind else 0.0, "decoupled_weight_decay": kind == "_decoupled"}


_DECAYS = ("", "_decay", "_decoupled")
_IN_DOUBLE = {("_decay", True, False), ("_decoupled", False, True), ("_decoupled", True, False)}
"""With beta1 0.9: weight decay, amsgrad, maximize."""

_CASES = {
    **{
        f"beta1_{beta1}{decay}{'_amsgrad' * amsgrad}{'_maximize' * maximize}": step_case(
            shapes=[(7, 11), (3,)],
            beta1=beta1,
            amsgrad=amsgrad,
            maximize=maximize,
            **_decay(decay, 0.01),
            double=beta1 > 0 and (decay, amsgrad, maximize) in _IN_DOUBLE,
        )
        for beta1, decay, amsgrad, maximize in product((0.9, 0.0), _DECAYS, (False, True), (False, True))
    },
    **{
        f"special{decay}{'_amsgrad' * amsgrad}": special_step(
            amsgrad=amsgrad, any_sign=True, double=not decay, **_decay(decay, 0.5)
        )
        for decay, amsgrad in product(_DECAYS, (False, True))
    },
    **{name: step_case(amsgrad=False) for name in ("squares_underflow", "zeros", "threads", "permuted", "gaps")},
    "zeros_eps_0_is_nan": step_case(shapes=[(20,)], values=(), eps=0.0),
    "negative_second_moment_is_nan": step_case(shapes=[(70,)], any_sign=True, beta2=1.0),
    "subnormal": step_case(amsgrad=False, weight_decay=0.1, eps=1e-44),
    "subnormal_hyperparameters": step_case(
        lr=1e-43,
        beta1=1e-40,
        beta2=1e-41,
        eps=1e-45,
        weight_decay=1e-42,
        bias_correction1=0.271,
        bias_correction2=0.002997001,
        amsgrad=False,
    ),
    "overflow": step_case(scale=2.0**100),
    "corrections_0": step_case(shapes=[(9,)], bias_correction1=0.0, bias_correction2=0.0),
    "correction_negative_is_nan": step_case(shapes=[(9,)], bias_correction1=0.5, bias_correction2=-0.5),
    "dim_0": step_case(weight_decay=0.1),
    # In units of 2**-149: g / 2 + m / 2 = 1.5 + 1 = 2.5 is rounded once, to 2. A product
    # rounded by itself would be 2, and the sum 3.
    "fused_first_moment": step_case(values=(1.0, 3 * 2.0**-149, 2.0**-148), beta1=0.5, beta2=0.5),
    # (g * g) * share overflows to inf, where (g * share) * g would not.
    "square_before_share": step_case(values=(1.0, 2.0**64), beta1=0.5, beta2=1 - 2.0**-10),
    # m / d overflows before the small step size could bring it back.
    "division_before_step": step_case(values=(1.0, 0.0, 2.0**120), eps=2.0**-20, lr=2.0**-40),
    # (m / d) * step rounds to -(1 + 2**-11) before p = 1 + 2**-11 is added: 0, not -2**-24.
    "parameter_not_fused": step_case(
        values=(1 + 2.0**-11, 0.0, 2 + 2.0**-11),
        lr=1 + 2.0**-12,
        beta1=0.5,
        beta2=0.5,
        eps=1.0,
        bias_correction1=1.0,
        bias_correction2=1.0,
    ),
    # The gradient is 2**-24 with a fused multiply-add, 0 without.
    "weight_decay_fused": step_case(values=(1 + 2.0**-12, -(1 + 2.0**-11)), weight_decay=1 + 2.0**-12),
}


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
    cases={
        "options": {
            "lr": 0.01,
            "beta1": 0.9,
            "beta2": 0.999,
            "eps": 1e-8,
            "weight_decay": 0.0,
            "bias_correction1": 0.271,
            "bias_correction2": 0.002997001,
            "amsgrad": False,
            "maximize": False,
            "decoupled_weight_decay": False,
        },
        "most": {"amsgrad": True},
        "lists": {"exp_avg_sqs": torch.Tensor.abs_, "max_exp_avg_sqs": torch.Tensor.abs_},
        "cases": _CASES,
    },
)


@public(
    "adam_step",
    page="generated/torch.optim.Adam",
    uncached="its op is cached",
)
def adam_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor] = (),
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
