"""Elementwise functions of two tensors, broadcast: one registered op each.

Those of one tensor are in `repdl.ops.pointwise.unary`, with which they share the family elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.dtypes.rounding import rounded
from repdl.errors import ArgumentError, DTypeError, UnsupportedError, check
from repdl.ops.common import constant, floating, item
from repdl.ops.declare import BY_SHAPES, INFINITY, Expression, Term, expanded, f, named, pointwise, public
from repdl.registry import CaseSpec, as_float, as_int, computes, functions as _ops

__all__ = ["add", "atan2", "div", "maximum", "minimum", "mul", "sub"]


Operand = Tensor | float | int
Function = Callable[..., Tensor]


def _binary(
    name: str, to_input: Callable[..., Term], to_other: Callable[..., Term], *, order: str, **declaration: Any
) -> Function:
    return pointwise(
        f"{name}(Tensor input, Tensor other, str contract) -> Tensor",
        {"input": to_input, "other": to_other},
        family="elementwise",
        order=order,
        cases=CaseSpec("binary"),
        **declaration,
    )


_IEEE = "the IEEE 754 operation"
_binary("add", lambda g: g, lambda g: g, order=_IEEE)
_binary("sub", lambda g: g, lambda g: -g, order=_IEEE)
_binary("mul", lambda g, other: g * other, lambda g, input: g * input, order=_IEEE)
_binary(
    "div",
    lambda g, other: g / other,
    lambda g, input, other: -(g * ((input / other) / other)),
    order=_IEEE,
)
_binary(
    "div_floor",
    lambda g: 0,
    lambda g: 0,
    order="`q = input / other`, rounded, then rounded down to an integer; where q is an integer already and above the "
    "exact quotient, `q - 1`; NaN for an infinite input and another number than 0, -1 for a finite input other than 0 "
    "and an infinity of the other sign",
)
_binary("div_trunc", lambda g: 0, lambda g: 0, order="`input / other`, rounded, then without its fraction")


def _per_square(y: Expression, x: Expression) -> Expression:
    """1 / (y * y + x * x), 0 for a quotient by 0, as torch."""
    square = named("s", y * y + x * x)
    return named("r", f.reciprocal(f.where(square == 0, INFINITY, square)))


_binary(
    "atan2",
    lambda g, input, other: g * (other * _per_square(input, other)),
    lambda g, input, other: -(g * (input * _per_square(input, other))),
    order="the exact angle of the point (other, input), in [-pi, pi], rounded to nearest even; of input +0 or -0 it is "
    "that zero where the sign bit of other is clear, else ±pi, rounded; for infinities the limits, of two ±pi / 4 or "
    "±3 pi / 4",
)
_binary(
    "maximum",
    lambda g, input, other: f.maximum_backward(g, expanded(input), expanded(other)),
    lambda g, input, other: f.maximum_backward(g, expanded(other), expanded(input)),
    order="other if input < other or other is NaN, else input, also of equal zeros",
)
_binary(
    "minimum",
    lambda g, input, other: f.maximum_backward(g, expanded(other), expanded(input)),
    lambda g, input, other: f.maximum_backward(g, expanded(input), expanded(other)),
    order="other if input > other or other is NaN, else input, also of equal zeros",
)
pointwise(
    "maximum_backward(Tensor grad, Tensor input, Tensor other) -> Tensor",
    {"grad": lambda h, input, other: f.maximum_backward(h, input, other)},
    family="elementwise",
    same_shape=("grad", "input", "other"),
    order="+0 if input < other, `grad * 0.5` if input = other, else grad",
    cases=(),
)


def operands(op: str, input: Operand, other: Operand, *, divides: bool = False) -> tuple[Tensor, Tensor] | None:
    """`promoted` of two operands that are called input and other."""
    pair = promoted(op, divides=divides, input=input, other=other)
    return None if pair is None else (pair[0], pair[1])


def promoted(op: str, *, divides: bool = False, **values: Operand) -> list[Tensor] | None:
    """All as tensors of the floating-point dtype that torch promotes them to; None where that is no such dtype.

    A Python number takes the dtype of the tensors beside it, rounded once. With `divides`
    integers become floating-point, as in a true division.
    """
    if any(isinstance(v, Tensor) and v.dim() == 0 for v in values.values()):
        values = on_one_device(values)
    tensors = [t for t in values.values() if isinstance(t, Tensor)]
    first = tensors[0] if tensors else None
    if first is not None and first.dtype in ALL and all(t.dtype is first.dtype for t in tensors):
        if len(tensors) == len(values):
            return tensors
        dtype = first.dtype
    else:
        dtype = _result_dtype(list(values.values()))
    if divides and not dtype.is_floating_point and not dtype.is_complex:
        dtype = torch.get_default_dtype()
    if dtype not in ALL and not dtype.is_complex and not dtype.is_floating_point:
        return None
    if dtype not in ALL:
        name = str(dtype).removeprefix("torch.")
        raise DTypeError(f"{op}: the operands' common dtype is {name}, expected float32, float64, bfloat16 or float16")
    device = torch.get_default_device() if first is None else first.device
    return [
        floating(value, dtype) if isinstance(value, Tensor) else _scalar(op, name, value, dtype, device)
        for name, value in values.items()
    ]


def on_one_device(values: Mapping[str, Any]) -> dict[str, Any]:
    """Operands, with 0-D tensors of the CPU moved to the device of the others, as in torch."""
    tensors = [v for v in values.values() if isinstance(v, Tensor)]
    homes = [t.device for t in tensors if t.dim() or t.device.type != "cpu"]
    moves = {n for n, v in values.items() if isinstance(v, Tensor) and v.dim() == 0 and v.device.type == "cpu"}
    return {name: v.to(homes[0]) if homes and name in moves else v for name, v in values.items()}


def _result_dtype(values: list[Operand]) -> torch.dtype:
    """torch's result dtype; a number counts by its kind alone, so that a symbolic one will do."""
    kinds: list[Any] = [t if isinstance(t, Tensor) else _kind(t) for t in values]
    if len(kinds) == 2:
        return torch.result_type(*kinds)
    # Tensors with dimensions go before those without, and these before numbers.
    groups: list[Any] = []
    for shape in ((1,), ()):
        dtypes = [t.dtype for t in kinds if isinstance(t, Tensor) and (t.dim() > 0) == bool(shape)]
        if dtypes:
            groups.append(torch.empty(shape, dtype=reduce(torch.promote_types, dtypes), device="meta"))
    numbers = [k for k in kinds if not isinstance(k, Tensor)]
    if numbers:
        groups.append(max(numbers, key=lambda k: (isinstance(k, float), not isinstance(k, bool))))
    while len(groups) > 1:
        first, second, *rest = groups
        groups = [torch.empty(first.shape, dtype=torch.result_type(first, second), device="meta"), *rest]
    return groups[0].dtype


def _kind(value: Any) -> bool | int | float:
    if isinstance(value, (bool, np.bool_)):
        return True
    return 1 if isinstance(value, (int, np.integer, torch.SymInt)) else 1.0


def _scalar(op: str, name: str, value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0-D, rounded once: an integer not by way of a rounded double, a double beyond float32 to inf."""
    if isinstance(value, (int, np.integer, torch.SymInt)) and not isinstance(value, bool):
        whole = as_int(op, name, value)
        if not -(2**63) <= whole < 2**63:
            check(op, False, lambda: f"{name} is {whole}, expected an integer of 64 bits or a float")
        return constant(whole, dtype, device)
    return constant(as_float(op, name, value), dtype, device)


pointwise(
    "add_alpha(Tensor input, Tensor other, float alpha, str contract) -> Tensor",
    {"input": lambda g: g, "other": lambda g, alpha: g * alpha},
    family="elementwise",
    order="`fma(alpha, other, input)`, rounded once",
    cases=[(0.3,), (-2.0,)],
)


def _scaled_op(
    op: str, function: Function, sign: int, input: Operand, other: Operand, alpha: float, contract: str
) -> Tensor:
    """`function(input, other)`, or with another alpha than 1 `fma(sign * alpha, other, input)`."""
    if isinstance(alpha, Tensor) and alpha.dim() == 0 and not alpha.requires_grad:
        alpha = item(alpha)
    pair = operands(op, input, other)
    if pair is None:
        return getattr(torch, op)(input, other, alpha=alpha)
    if isinstance(alpha, bool):
        raise ArgumentError(f"{op}: alpha is bool {alpha}, expected a real number")
    if isinstance(alpha, (int, float)) and alpha == 1:
        return function(*pair, contract)
    if isinstance(alpha, int) and not -(2**24) <= alpha <= 2**24:  # rounded once, not by way of a double
        single = pair[0].dtype is not torch.float64
        alpha = rounded(as_int(op, "alpha", alpha), torch.float32 if single else torch.float64)
    number = as_float(op, "alpha", alpha)
    return _ops.add_alpha(*pair, number if sign > 0 else -number, contract)


@public("elementwise", cache=BY_SHAPES, broadcasts=True)
def add(input: Operand, other: Operand, *, alpha: float = 1, contract: ContractLike = None) -> Tensor:
    """`input + alpha * other`, broadcast, any floating-point dtype, rounded once."""
    return _scaled_op("add", _ops.add, 1, input, other, alpha, contract)


@public("elementwise", cache=BY_SHAPES, broadcasts=True)
def sub(input: Operand, other: Operand, *, alpha: float = 1, contract: ContractLike = None) -> Tensor:
    """`input - alpha * other`, broadcast, any floating-point dtype, rounded once."""
    for operand in (input, other):
        if isinstance(operand, bool):
            raise ArgumentError(f"sub: an operand is bool {operand}, expected a tensor or a real number")
        if isinstance(operand, Tensor) and operand.dtype is torch.bool:
            raise DTypeError("sub: an operand's dtype is bool, expected numbers; use torch.logical_xor or ~")
    return _scaled_op("sub", _ops.sub, -1, input, other, alpha, contract)


@public("elementwise", cache=BY_SHAPES, broadcasts=True)
def mul(input: Operand, other: Operand, *, contract: ContractLike = None) -> Tensor:
    """`input * other`, broadcast, any floating-point dtype, rounded once."""
    pair = operands("mul", input, other)
    return torch.mul(input, other) if pair is None else _ops.mul(*pair, contract)  # type: ignore[arg-type]


@computes("div", integers=True)
@public("elementwise", cache=BY_SHAPES, broadcasts=True)
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None, contract: ContractLike = None) -> Tensor:
    """`input / other`, broadcast, any floating-point dtype, rounded once; integers become floating-point.

    With `rounding_mode` 'trunc' the quotient is cut to an integer, with 'floor' rounded down to one; their
    derivative is 0.

    Raises:
        UnsupportedError: for another `rounding_mode`.
    """
    if rounding_mode is None:
        pair = operands("div", input, other, divides=True)
        assert pair is not None
        return _ops.div(*pair, contract)
    if rounding_mode not in ("floor", "trunc"):
        raise UnsupportedError(f"div: rounding_mode is {rounding_mode!r}, expected None, 'floor' or 'trunc'")
    pair = operands("div", input, other)
    if pair is None:
        return torch.div(input, other, rounding_mode=rounding_mode)  # type: ignore[arg-type]
    return (_ops.div_floor if rounding_mode == "floor" else _ops.div_trunc)(*pair, contract)


@public("elementwise", broadcasts=True)
def atan2(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The angle of the point (`other`, `input`), broadcast, any floating-point dtype, correctly rounded."""
    pair = operands("atan2", input, other, divides=True)
    assert pair is not None
    return _ops.atan2(*pair, contract)


@public("elementwise", broadcasts=True)
def maximum(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The larger of two elements, broadcast, any floating-point dtype; NaN if either is NaN."""
    pair = operands("maximum", input, other)
    return torch.maximum(input, other) if pair is None else _ops.maximum(*pair, contract)


@public("elementwise", broadcasts=True)
def minimum(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The smaller of two elements, broadcast, any floating-point dtype; NaN if either is NaN."""
    pair = operands("minimum", input, other)
    return torch.minimum(input, other) if pair is None else _ops.minimum(*pair, contract)
