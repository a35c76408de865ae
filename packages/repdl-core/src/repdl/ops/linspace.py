"""linspace: evenly spaced numbers."""

from __future__ import annotations

from typing import Any

import torch

from repdl import registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL
from repdl.errors import UnsupportedError, as_float, as_int, check, check_bool
from repdl.ops._number import constant, floating
from repdl.ops.cast import narrowed

__all__ = ["linspace"]

_ops = registry.functions


def linspace(
    start: float | torch.Tensor,
    end: float | torch.Tensor,
    steps: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """Numbers from `start` to `end`, evenly spaced: `(steps)`, any floating-point dtype, by default torch's default.

    `lerp(start, end, i / (steps - 1))` in float64, rounded once to the dtype; `start` alone for one step.

    Args:
        start, end: numbers, or 0-D tensors, whose derivatives are those of the lerp.
        steps: how many.

    Raises:
        ShapeError: if `steps` is negative, or a tensor is not 0-D.
        UnsupportedError: for other dtypes.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.linspace.html
    """
    op, name = "linspace", contract_name(contract)
    check_bool(op, requires_grad=requires_grad)
    count = as_int(op, "steps", steps)
    check(op, count >= 0, lambda: f"steps is {count}, expected 0 or more")
    chosen = torch.get_default_dtype() if dtype is None else dtype
    if chosen not in ALL:
        raise UnsupportedError(f"{op}: dtype is {chosen}, expected float32, float64, bfloat16 or float16")
    given = [t for t in (start, end) if isinstance(t, torch.Tensor)]
    numbers = torch.arange(count, device=given[0].device if device is None and given else device)
    home = numbers.device

    def number(what: str, value: Any) -> torch.Tensor:
        if not isinstance(value, torch.Tensor):
            return constant(as_float(op, what, value), torch.float64, home)
        check(op, value.dim() == 0, lambda: f"{what}.dim() is {value.dim()}, expected 0")
        return floating(value, torch.float64).to(home)

    first, last = number("start", start), number("end", end)
    weights = _ops.div(numbers.to(torch.float64), constant(float(max(count - 1, 1)), torch.float64, home), name)
    output = narrowed(_ops.lerp_tensor(first, last, weights, name), chosen)
    return output.requires_grad_() if requires_grad else output
