"""linspace and arange: evenly spaced numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike, contract_name
from repdl.dtypes import ALL
from repdl.dtypes.rounding import difference, div
from repdl.errors import UnsupportedError, check, check_range
from repdl.ops.common import constant, floating, narrowed
from repdl.ops.declare import public
from repdl.registry import as_float, as_int, computes, functions as _ops

__all__ = ["arange", "linspace"]


@public("elementwise", uncached="functions that are cached compute it")
def linspace(
    start: float | Tensor,
    end: float | Tensor,
    steps: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
    contract: ContractLike = None,
) -> Tensor:
    """Numbers from `start` to `end`, evenly spaced: `(steps)`, any floating-point dtype, by default torch's default.

    `lerp(start, end, i / (steps - 1))` in float64, rounded once to the dtype; `start` alone for one step.

    Args:
        start, end: numbers, or 0-D tensors, whose derivatives are those of the lerp.
        steps: how many.

    Raises:
        ShapeError: if `steps` is negative, or a tensor is not 0-D.
        UnsupportedError: for other dtypes.
    """
    op = "linspace"
    count = as_int(op, "steps", steps)
    check(op, count >= 0, lambda: f"steps is {count}, expected 0 or more")
    chosen = torch.get_default_dtype() if dtype is None else dtype
    if chosen not in ALL:
        raise UnsupportedError(f"{op}: dtype is {chosen}, expected float32, float64, bfloat16 or float16")
    given = [t for t in (start, end) if isinstance(t, Tensor)]
    numbers = torch.arange(count, device=given[0].device if device is None and given else device)
    home = numbers.device

    def scalar(what: str, value: Any) -> Tensor:
        if not isinstance(value, Tensor):
            return constant(as_float(op, what, value), torch.float64, home)
        check(op, value.dim() == 0, lambda: f"{what}.dim() is {value.dim()}, expected 0")
        return floating(value, torch.float64).to(home)

    first, last = scalar("start", start), scalar("end", end)
    weights = _ops.div(numbers.to(torch.float64), constant(float(max(count - 1, 1)), torch.float64, home), contract)
    output = narrowed(_ops.lerp_tensor(first, last, weights, contract), chosen)
    return output.requires_grad_() if requires_grad else output


@public("elementwise", uncached="functions that are cached compute it")
def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
    contract: ContractLike = None,
) -> Tensor:
    """Numbers from `start` up to `end`, `step` apart: `(ceil((end - start) / step))`.

    `start + i * step` in float64, product and sum rounded, then rounded once to the dtype. Integers are exact.

    Args:
        start, end: numbers; with one of them alone it is the end, and 0 the start.
        step: a number other than 0.
        dtype: any floating-point or integer dtype; None: int64 if all are integers, else torch's default.

    Raises:
        OutOfRangeError: if a number is not finite, step is 0, or leads away from the end.
        UnsupportedError: for other dtypes, or integers of numbers with a fraction.
    """
    first, last = (0, start) if end is None else (start, end)
    return evenly_spaced("arange", first, last, step, dtype, device, requires_grad, contract)


def evenly_spaced(
    op: str,
    start: float,
    end: float,
    step: float,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
    requires_grad: bool,
    contract: str,
) -> Tensor:
    """`arange`, or torch's `range`, which has its end."""
    given = {"start": start, "end": end, "step": step}
    if dtype is None:
        whole = op == "arange" and all(isinstance(value, int) for value in given.values())
        dtype = torch.int64 if whole else torch.get_default_dtype()
    first, last, by = (as_float(op, name, value) for name, value in given.items())
    infinite = [name for name, value in given.items() if not math.isfinite(value)]
    check_range(op, not infinite, lambda: f"{infinite[0]} is {given[infinite[0]]}, expected a finite number")
    check_range(op, by != 0, "step is 0, expected another number")
    check_range(
        op,
        last == first or (last > first) == (by > 0),
        lambda: f"end is {end}, expected one that step {step} leads to from start {start}",
    )
    if not dtype.is_floating_point and not dtype.is_complex:
        if not all(float(value).is_integer() for value in given.values()):
            raise UnsupportedError(f"{op}: start is {start}, end {end}, step {step}, expected integers for {dtype}")
        stop = int(end) + (0 if op == "arange" else int(math.copysign(1, by)))
        return torch.arange(int(start), stop, int(step), dtype=dtype, device=device)
    if dtype not in ALL:
        raise UnsupportedError(f"{op}: dtype is {dtype}, expected float32, float64, bfloat16 or float16")
    length = div(difference(last, first), by)
    count = math.ceil(length) if op == "arange" else math.floor(length) + 1
    numbers = torch.arange(count, device=device)
    size, begin = (constant(value, torch.float64, numbers.device) for value in (by, first))
    output = narrowed(_ops.add(_ops.mul(numbers.to(torch.float64), size, contract), begin, contract), dtype)
    return output.requires_grad_() if requires_grad else output


def _aten_ranged(op: str) -> Callable[..., Any]:
    def made(
        start: float = 0,
        end: float = 0,
        step: float = 1,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        return evenly_spaced(op, start, end, step, dtype, device, False, contract_name(None))

    return made


for _name in ("arange", "range"):
    computes(_name, ignored=("layout", "pin_memory"))(_aten_ranged(_name))
computes("linspace", ignored=("layout", "pin_memory"))(linspace)
