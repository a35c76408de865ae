"""Elementwise functions with several operands or bounds: clamp, where, lerp, addcmul, addcdiv.

They share the family elementwise with those of one (`repdl.ops.pointwise.unary`) and of two operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes
from repdl.dtypes.rounding import difference
from repdl.errors import ArgumentError, DTypeError, check_dtype
from repdl.ops.common import greater_than, less_than
from repdl.ops.declare import BY_SHAPES, Computed, Slope, f, pointwise, public, variants
from repdl.ops.pointwise.elementwise import Operand, on_one_device, promoted
from repdl.registry import as_float, computes

__all__ = ["addcdiv", "addcmul", "clamp", "fmax", "fmin", "lerp", "where"]

Function = Callable[..., Any]
_INF = float("inf")


_where: Function = pointwise(
    "where(Tensor condition, Tensor input, Tensor other, str contract) -> Tensor",
    {"input": lambda g, condition: f.where(condition, g, 0), "other": lambda g, condition: f.where(condition, 0, g)},
    family="elementwise",
    dtypes=Dtypes(bools=("condition",)),
    order="input if condition, else other",
    cases=(),
)
_clamp: Function = pointwise(
    "clamp(Tensor input, float min, float max) -> Tensor",
    Slope("grad if min <= x <= max, else +0"),
    family="elementwise",
    order="m = min if x < min or min is NaN, else x; then max if m > max or max is NaN, else m",
    cases=(),
)
_lerp: Function = pointwise(
    "lerp(Tensor input, Tensor end, float weight, str contract) -> Tensor",
    {
        "input": lambda g, weight: g * Computed("r", lambda w: difference(1.0, w), weight),
        "end": lambda g, weight: g * weight,
    },
    family="elementwise",
    order="`fma(end, weight, input * r)`, r = 1 - weight, a double operation, rounded to the dtype after it",
    cases=[(0.3,), (1.5,)],
)
_lerp_tensor: Function = pointwise(
    "lerp_tensor(Tensor input, Tensor end, Tensor weight, str contract) -> Tensor",
    {
        "input": lambda g, weight: g * (1 - weight),
        "end": lambda g, weight: g * weight,
        "weight": lambda g, input, end: g * (end - input),
    },
    family="elementwise",
    order="as lerp with r = 1 - weight in the dtype",
)
_addcmul: Function = pointwise(
    "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, float value, str contract) -> Tensor",
    {
        "input": lambda g: g,
        "tensor1": lambda g, tensor2, value: (g * tensor2) * value,
        "tensor2": lambda g, tensor1, value: (g * tensor1) * value,
    },
    family="elementwise",
    order="`input + value * (tensor1 * tensor2)`, three roundings",
    cases=[(1.0,), (0.1,)],
)
_addcdiv: Function = pointwise(
    "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, float value, str contract) -> Tensor",
    {
        "input": lambda g: g,
        "tensor1": lambda g, tensor2, value: (g / tensor2) * value,
        "tensor2": lambda g, tensor1, tensor2, value: -((g * ((tensor1 / tensor2) / tensor2)) * value),
    },
    family="elementwise",
    order="`input + value * (tensor1 / tensor2)`, three roundings",
    cases=[(1.0,), (-0.7,)],
)


@public("elementwise", broadcasts=True)
def where(condition: Tensor, input: Operand, other: Operand, *, contract: ContractLike = None) -> Tensor:
    """`input` where `condition`, a tensor of bools, is true, else `other`; broadcast, any dtype.

    Raises:
        DTypeError, DeviceError: if `condition` is not of bools, or dtypes or devices are not those of the contract.
    """
    if condition.dtype is not torch.bool:
        raise DTypeError(
            f"where: condition.dtype is {str(condition.dtype).removeprefix('torch.')}, expected bool; "
            f"convert it first with condition != 0"
        )
    pair = promoted("where", input=input, other=other)
    if pair is None:
        return torch.where(condition, input, other)  # type: ignore[arg-type, call-overload, no-any-return]
    given = on_one_device({"condition": condition, "input": pair[0], "other": pair[1]})
    return _where(*given.values(), contract)


@public("elementwise")
def clamp(
    input: Tensor, min: Operand | None = None, max: Operand | None = None, *, contract: ContractLike = None
) -> Tensor:
    """`input`, or `min` where it is below that, or `max` where it is above that; any shape and dtype.

    Bounds are numbers or tensors that broadcast. A NaN in an operand is one in the result; `max`
    goes before `min`. The derivative is 1 where the element is kept, bounds included.

    Raises:
        ArgumentError: if both bounds are None.
        ShapeError, DTypeError, DeviceError: if shapes do not broadcast, or dtypes or devices are not
            those of the contract.
    """
    bounds: dict[str, Any] = {n: b for n, b in (("min", min), ("max", max)) if b is not None}
    if not bounds:
        raise ArgumentError("clamp: min and max are None, expected one at least")
    numbers = not any(isinstance(b, Tensor) for b in bounds.values())
    if numbers and input.dtype in ALL:
        low, high = (as_float("clamp", n, bounds.get(n, end)) for n, end in (("min", -_INF), ("max", _INF)))
        return _clamp(input, low, high)
    given = promoted("clamp", input=input, **bounds)
    if given is None:
        return torch.clamp(input, min, max)  # type: ignore[arg-type, call-overload, no-any-return]
    result, *tensors = given
    for bound, which in zip(tensors, bounds):
        beyond = less_than(result, bound, contract) if which == "min" else less_than(bound, result, contract)
        result = _where(beyond | bound.detach().isnan(), bound, result, contract)
    return result


@public("elementwise", cache=BY_SHAPES, broadcasts=True)
def lerp(input: Tensor, end: Tensor, weight: Tensor | float, *, contract: ContractLike = None) -> Tensor:
    """`fma(end, weight, input * (1 - weight))`, broadcast, any floating-point dtype.

    Raises:
        DTypeError, DeviceError: if dtypes or devices are not those of the contract, or not the same.
    """
    check_dtype("lerp", ALL, input=input)
    check_dtype("lerp", (input.dtype,), end=end)
    input, end, weight = on_one_device({"input": input, "end": end, "weight": weight}).values()
    if isinstance(weight, Tensor):
        check_dtype("lerp", (input.dtype,), weight=weight)
        return _lerp_tensor(input, end, weight, contract)
    return _lerp(input, end, as_float("lerp", "weight", weight), contract)


@public("elementwise", cache=BY_SHAPES, broadcasts=True)
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1, contract: ContractLike = None
) -> Tensor:
    """`input + value * (tensor1 * tensor2)`, broadcast, any floating-point dtype, three roundings."""
    given = promoted("addcmul", input=input, tensor1=tensor1, tensor2=tensor2)
    if given is None:
        return torch.addcmul(input, tensor1, tensor2, value=value)
    return _addcmul(*given, as_float("addcmul", "value", value), contract)


@public("elementwise", cache=BY_SHAPES, broadcasts=True)
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1, contract: ContractLike = None
) -> Tensor:
    """`input + value * (tensor1 / tensor2)`, broadcast, any floating-point dtype, three roundings."""
    given = promoted("addcdiv", input=input, tensor1=tensor1, tensor2=tensor2)
    if given is None:
        raise DTypeError("addcdiv: the operands are integers, expected a floating-point dtype; cast one first")
    return _addcdiv(*given, as_float("addcdiv", "value", value), contract)


def _known(op: str, input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """fmax or fmin."""
    pair = promoted(op, input=input, other=other)
    if pair is None:
        return getattr(torch, op)(input, other)
    x, y = pair
    beyond = less_than(x, y, contract) if op == "fmax" else greater_than(x, y, contract)
    return _where(~(beyond | x.detach().isnan()) | y.detach().isnan(), x, y, contract)  # laid out as both say


_DOCS = {
    "fmax": """The larger of two elements, broadcast, any dtype; of a number and NaN the number, `input` of equal ones.

    `where(y is NaN or not (x < y or x is NaN), x, y)`, whose gradient goes to the one that is taken.
    """,
    "fmin": """The smaller of two elements, broadcast, any dtype; of a number and NaN the number, `input` of equal ones.

    `where(y is NaN or not (x > y or x is NaN), x, y)`, whose gradient goes to the one that is taken.
    """,
}
fmax, fmin = variants(_known, "elementwise", _DOCS, broadcasts=True)


@computes("clamp_max")
def _aten_clamp_max(input: Tensor, max: Any) -> Tensor:
    return clamp(input, None, max)


computes("clamp_min")(clamp)
