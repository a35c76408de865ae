"""The step of Rprop."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.ops.declare import public, step

__all__ = ["rprop_step"]


_rprop_step = step(
    "rprop_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] prevs, Tensor(c!)[] step_sizes, float "
    "etaminus, float etaplus, float step_size_min, float step_size_max, bool maximize) -> ()",
    "one step of Rprop",
    """
With p the parameter, g the gradient, q and s the elements of prevs and step_sizes:

1. If maximize: `g = -g`.
2. f is `rounded(etaplus)` if `g * q` is above 0, `rounded(etaminus)` if it is below 0, else 1; 1 in place of an f of 0.
3. `s = clamp(s * f, rounded(step_size_min), rounded(step_size_max))`, with `clamp` of `elementwise.md`.
4. If f is `rounded(etaminus)`: g = +0.
5. `p = p - sign(g) * s`, with `sign` of `elementwise.md`.
6. `q = g`.

It is torch's Rprop, written with `mul`, `sign`, `clamp` and `addcmul` of `elementwise.md`.
""",
    cases={
        "options": {"etaminus": 0.5, "etaplus": 1.2, "step_size_min": 1e-6, "step_size_max": 50.0},
        "switches": {"maximize": (False, True)},
        "lists": {"step_sizes": lambda t: t.abs() / 16},
        "cases": {
            "limits": {"shapes": [(70,)], "step_size_min": 0.03, "step_size_max": 0.04},
            "etaminus_rounds_to_1": {"shapes": [(70,)], "etaminus": 1 - 2.0**-30},
            "etaminus_rounds_to_0": {"shapes": [(70,)], "etaminus": 2.0**-160},
            "limits_nan": {"shapes": [(9,)], "step_size_max": float("nan")},
        },
    },
)


@public("rprop_step", page="generated/torch.optim.Rprop", uncached="its op is cached")
def rprop_step(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    prevs: Sequence[Tensor],
    step_sizes: Sequence[Tensor],
    *,
    etaminus: float,
    etaplus: float,
    step_size_min: float,
    step_size_max: float,
    maximize: bool = False,
) -> None:
    """Update `params` and their state in place, float32 or float64, tensors of any shape and strides.

    Args:
        etaminus, etaplus: factors of a size where the gradient changes its sign, and where it keeps it.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.
    """
    if params or grads or prevs or step_sizes:
        _rprop_step(params, grads, prevs, step_sizes, etaminus, etaplus, step_size_min, step_size_max, maximize)
