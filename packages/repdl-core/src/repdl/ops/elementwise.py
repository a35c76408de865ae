"""Elementwise functions of two tensors, broadcast: one registered op each.

Those of one tensor are in `repdl.ops.unary`, with which they share the family elementwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from repdl import layout, registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL, HALF, Dtypes
from repdl.errors import (
    ArgumentError,
    UnsupportedError,
    as_float,
    as_int,
    check,
    check_size,
    check_tensor,
)
from repdl.ops._broadcast import broadcast_shapes, sum_to
from repdl.ops._number import constant, item
from repdl.ops.cast import narrowed, widened

Operand = torch.Tensor | float | int
Function = Callable[..., torch.Tensor]
_ops = torch.ops.repdl


def _define_binary(
    name: str, saves: bool, to_input: Function, to_other: Function
) -> Function:
    """Register `name(input, other)` with broadcasting; `to_input` and `to_other` compute
    the gradients of the broadcast operands from (grad, input, other, contract) if it
    `saves` the operands, else from (grad, contract)."""

    def check_arguments(input: torch.Tensor, other: torch.Tensor, contract: str) -> None:
        if input.shape != other.shape:
            broadcast_shape(name, input=input, other=other)

    def fake(input: torch.Tensor, other: torch.Tensor, contract: str) -> torch.Tensor:
        return layout.empty_pointwise(input, other)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        input, other, ctx.contract = inputs
        ctx.shapes = input.shape, other.shape
        ctx.save_for_backward(*((input, other) if saves else ()))

    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        grads = [
            sum_to(formula(grad, *ctx.saved_tensors, ctx.contract), shape, ctx.contract) if needed else None
            for formula, shape, needed in zip((to_input, to_other), ctx.shapes, ctx.needs_input_grad)
        ]
        return *grads, None

    return registry.define(
        name, "(Tensor input, Tensor other, str contract) -> Tensor", family="elementwise",
        check=check_arguments, fake=fake, setup_context=setup_context, backward=backward, dtypes=Dtypes(),
    )


def broadcast_shape(op: str, **tensors: torch.Tensor) -> torch.Size:
    """The shape that the tensors broadcast to; raises ShapeError if they do not."""
    try:
        return broadcast_shapes(*(t.shape for t in tensors.values()))
    except RuntimeError:
        shapes = ", ".join(f"{name}.shape is {tuple(t.shape)}" for name, t in tensors.items())
        check(op, False, f"{shapes}; expected shapes that broadcast (equal sizes, or 1, from the right)")
        raise


_add: Function = _define_binary("add", False, lambda grad, c: grad, lambda grad, c: grad)
_sub: Function = _define_binary("sub", False, lambda grad, c: grad, lambda grad, c: _ops.neg(grad))
_mul: Function = _define_binary(
    "mul", True, lambda grad, a, b, c: _mul(grad, b, c), lambda grad, a, b, c: _mul(grad, a, c)
)
_div: Function = _define_binary(
    "div", True,
    lambda grad, a, b, c: _div(grad, b, c),
    lambda grad, a, b, c: _ops.neg(_mul(grad, _div(_div(a, b, c), b, c), c)),
)
_maximum: Function = _define_binary(
    "maximum", True,
    lambda grad, a, b, c: _extremum_backward(grad, a, b),
    lambda grad, a, b, c: _extremum_backward(grad, b, a),
)
_minimum: Function = _define_binary(
    "minimum", True,
    lambda grad, a, b, c: _extremum_backward(grad, b, a),
    lambda grad, a, b, c: _extremum_backward(grad, a, b),
)


def _extremum_backward(grad: torch.Tensor, kept: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return _maximum_backward(grad, *(t.expand(grad.shape) for t in (kept.detach(), other.detach())))


def check_like(op: str, grad: torch.Tensor, **tensors: torch.Tensor) -> None:
    """Raise unless the tensors of a backward op have the shape of `grad`."""
    for name, tensor in tensors.items():
        check_size(op, f"{name}.shape", tuple(tensor.shape), tuple(grad.shape), "grad.shape")


_maximum_backward: Function = registry.define(
    "maximum_backward", "(Tensor grad, Tensor input, Tensor other) -> Tensor", family="elementwise",
    check=lambda grad, input, other: check_like("maximum_backward", grad, input=input, other=other),
    fake=layout.empty_pointwise,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[1:]),
    backward=lambda ctx, grad: (_maximum_backward(grad, *ctx.saved_tensors), None, None),
    dtypes=Dtypes(),
)


def operands(op: str, input: Operand, other: Operand) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as tensors: a Python number becomes a 0-D tensor of the dtype of the other one."""
    if isinstance(input, torch.Tensor):
        return input, other if isinstance(other, torch.Tensor) else _number(op, "other", other, input)
    check(op, isinstance(other, torch.Tensor), "no tensor among the operands, expected one at least")
    return _number(op, "input", input, other), other  # type: ignore[arg-type,return-value]


def _number(op: str, name: str, value: float, like: torch.Tensor) -> torch.Tensor:
    """0-D of the dtype of `like`, rounded once: an integer not by way of a rounded double, a
    double beyond float32 to inf. float32 beside what is no floating-point tensor."""
    dtype = like.dtype if like.dtype in ALL else torch.float32
    if isinstance(value, (int, np.integer, torch.SymInt)) and not isinstance(value, bool):
        whole = as_int(op, name, value)
        if not -(2**63) <= whole < 2**63:
            check(op, False, f"{name} is {whole}, expected an integer of 64 bits or a float")
        return constant(whole, dtype, like.device)
    return constant(as_float(op, name, value), dtype, like.device)


def _scaled(op: str, other: torch.Tensor, alpha: float, contract: str) -> torch.Tensor:
    if isinstance(alpha, torch.Tensor) and alpha.dim() == 0 and not alpha.requires_grad:
        alpha = item(alpha)
    if isinstance(alpha, bool):
        raise ArgumentError(f"{op}: alpha is bool {alpha}, expected a real number")
    if isinstance(alpha, (int, float)) and alpha == 1:
        return other
    return _mul(other, _number(op, "alpha", alpha, other), contract)


def add(
    input: Operand, other: Operand, *, alpha: float = 1, contract: Contract | str | None = None
) -> torch.Tensor:
    """`input + alpha * other`, broadcast, any floating-point dtype: the product is rounded, then the sum.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.add.html
    """
    a, b = operands("add", input, other)
    name = contract_name(contract)
    if a.dtype in HALF and not (isinstance(alpha, (int, float)) and alpha == 1):
        dtype, (a, b) = widened(a, b)
        return narrowed(_add(a, _scaled("add", b, alpha, name), name), dtype)
    return _add(a, _scaled("add", b, alpha, name), name)


def sub(
    input: Operand, other: Operand, *, alpha: float = 1, contract: Contract | str | None = None
) -> torch.Tensor:
    """`input - alpha * other`, broadcast, any floating-point dtype: the product is rounded, then the difference.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.sub.html
    """
    for operand in (input, other):
        if isinstance(operand, bool):
            raise ArgumentError(f"sub: an operand is bool {operand}, expected a tensor or a real number")
    a, b = operands("sub", input, other)
    name = contract_name(contract)
    if a.dtype in HALF and not (isinstance(alpha, (int, float)) and alpha == 1):
        dtype, (a, b) = widened(a, b)
        return narrowed(_sub(a, _scaled("sub", b, alpha, name), name), dtype)
    return _sub(a, _scaled("sub", b, alpha, name), name)


def mul(input: Operand, other: Operand, *, contract: Contract | str | None = None) -> torch.Tensor:
    """`input * other`, broadcast, any floating-point dtype, rounded once.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.mul.html
    """
    return _mul(*operands("mul", input, other), contract_name(contract))


def div(
    input: Operand,
    other: Operand,
    *,
    rounding_mode: str | None = None,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """`input / other`, broadcast, any floating-point dtype, rounded once.

    Raises:
        ShapeError: if the shapes do not broadcast.
        UnsupportedError: if `rounding_mode` is not None.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.div.html
    """
    if rounding_mode is not None:
        raise UnsupportedError(f"div: rounding_mode is {rounding_mode!r}, expected None (true division)")
    return _div(*operands("div", input, other), contract_name(contract))


def maximum(input: torch.Tensor, other: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """The larger of two elements, broadcast, any floating-point dtype; NaN if either is NaN.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.maximum.html
    """
    check_tensor("maximum", input=input, other=other)
    return _maximum(input, other, contract_name(contract))


def minimum(input: torch.Tensor, other: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """The smaller of two elements, broadcast, any floating-point dtype; NaN if either is NaN.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.minimum.html
    """
    check_tensor("minimum", input=input, other=other)
    return _minimum(input, other, contract_name(contract))
