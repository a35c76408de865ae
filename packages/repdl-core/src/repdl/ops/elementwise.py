"""Elementwise functions: one registered op each, all made by the two tables below.

Functions of one operand have no order that a contract could choose; they take `contract=`
like every other op, and check it.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from repdl import registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL, HALF, SINGLE, Dtypes
from repdl.errors import (
    ArgumentError,
    UnsupportedError,
    as_float,
    as_int,
    check,
    check_bool,
    check_size,
    check_tensor,
)
from repdl.ops._broadcast import sum_to
from repdl.ops.cast import cast, narrowed, widened

Operand = torch.Tensor | float | int
Function = Callable[..., torch.Tensor]
_ops = torch.ops.repdl


def _define_unary(
    name: str, saves: str, derivative: Function | None, supported: tuple[torch.dtype, ...] = SINGLE
) -> Function:
    """Register `name(input)`; `derivative(grad, saved)` is the gradient, `saves` names
    what it needs: "input", "output" or nothing. None: the derivative is zero."""

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*{"input": inputs, "output": (output,), "": ()}[saves])

    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return torch.zeros_like(grad) if derivative is None else derivative(grad, *ctx.saved_tensors)

    return registry.define(
        name, "(Tensor input) -> Tensor", family="elementwise",
        check=lambda input: None, fake=lambda input: input.new_empty(input.shape),
        setup_context=setup_context, backward=backward, dtypes=Dtypes(supported),
    )


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
        return input.new_empty(torch.broadcast_shapes(input.shape, other.shape))

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
        return torch.broadcast_shapes(*(t.shape for t in tensors.values()))
    except RuntimeError:
        shapes = ", ".join(f"{name}.shape is {tuple(t.shape)}" for name, t in tensors.items())
        check(op, False, f"{shapes}; expected shapes that broadcast (equal sizes, or 1, from the right)")
        raise


_abs: Function = _define_unary("abs", "input", lambda grad, x: _ops.mul(grad, _sign(x), "v1"), ALL)
_exp: Function = _define_unary("exp", "output", lambda grad, y: _ops.mul(grad, y, "v1"))
_expm1: Function = _define_unary(
    "expm1", "output", lambda grad, y: _ops.mul(grad, _ops.add(y, y.new_ones(()), "v1"), "v1")
)
_log: Function = _define_unary("log", "input", lambda grad, x: _ops.div(grad, x, "v1"))
_neg: Function = _define_unary("neg", "", lambda grad: _neg(grad), ALL)
_reciprocal: Function = _define_unary(
    "reciprocal", "output", lambda grad, y: _neg(_ops.mul(grad, _ops.mul(y, y, "v1"), "v1")), ALL
)
_relu: Function = _define_unary("relu", "output", lambda grad, y: _relu_backward(grad, y), ALL)
_sigmoid: Function = _define_unary(
    "sigmoid", "output",
    lambda grad, y: _ops.mul(grad, _ops.mul(_ops.sub(y.new_ones(()), y, "v1"), y, "v1"), "v1"),
)
_sign: Function = _define_unary("sign", "", None, ALL)
_sqrt: Function = _define_unary("sqrt", "output", lambda grad, y: _ops.div(grad, _ops.add(y, y, "v1"), "v1"), ALL)
_square: Function = _define_unary("square", "input", lambda grad, x: _ops.mul(grad, _ops.add(x, x, "v1"), "v1"), ALL)
_tanh: Function = _define_unary(
    "tanh", "output",
    lambda grad, y: _ops.mul(grad, _ops.sub(y.new_ones(()), _ops.mul(y, y, "v1"), "v1"), "v1"),
)

_add: Function = _define_binary("add", False, lambda grad, c: grad, lambda grad, c: grad)
_sub: Function = _define_binary("sub", False, lambda grad, c: grad, lambda grad, c: _neg(grad))
_mul: Function = _define_binary(
    "mul", True, lambda grad, a, b, c: _mul(grad, b, c), lambda grad, a, b, c: _mul(grad, a, c)
)
_div: Function = _define_binary(
    "div", True,
    lambda grad, a, b, c: _div(grad, b, c),
    lambda grad, a, b, c: _neg(_mul(grad, _div(_div(a, b, c), b, c), c)),
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


def _check_relu_backward(grad: torch.Tensor, output: torch.Tensor) -> None:
    check_size("relu_backward", "output.shape", tuple(output.shape), tuple(grad.shape), "grad.shape")


_relu_backward: Function = registry.define(
    "relu_backward", "(Tensor grad, Tensor output) -> Tensor", family="elementwise",
    check=_check_relu_backward, fake=lambda grad, output: grad.new_empty(grad.shape),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
    backward=lambda ctx, grad: (_relu_backward(grad, *ctx.saved_tensors), None), dtypes=Dtypes(),
)


def _check_maximum_backward(grad: torch.Tensor, input: torch.Tensor, other: torch.Tensor) -> None:
    for name, tensor in (("input", input), ("other", other)):
        check_size("maximum_backward", f"{name}.shape", tuple(tensor.shape), tuple(grad.shape), "grad.shape")


_maximum_backward: Function = registry.define(
    "maximum_backward", "(Tensor grad, Tensor input, Tensor other) -> Tensor", family="elementwise",
    check=_check_maximum_backward, fake=lambda grad, input, other: grad.new_empty(grad.shape),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[1:]),
    backward=lambda ctx, grad: (_maximum_backward(grad, *ctx.saved_tensors), None, None), dtypes=Dtypes(),
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
        check(op, -(2**63) <= whole < 2**63, f"{name} is {whole}, expected an integer of 64 bits or a float")
        if dtype in HALF and isinstance(whole, int):
            return cast(torch.full((), to_odd(whole), dtype=torch.float64, device=like.device), dtype)
        return torch.full((), whole, dtype=torch.int64, device=like.device).to(dtype)
    number = torch.full((), as_float(op, name, value), dtype=torch.float64, device=like.device)
    return cast(number, dtype) if dtype in HALF else number.to(dtype)


def to_odd(whole: int) -> float:
    """An integer as a double, rounded to odd: rounding that to a half is one rounding."""
    size = builtins.abs(whole)
    shift = max(size.bit_length() - 53, 0)
    inexact = size >> shift << shift != size
    return math.copysign(float((size >> shift | inexact) << shift), whole)


def _scaled(op: str, other: torch.Tensor, alpha: float, contract: str) -> torch.Tensor:
    if isinstance(alpha, torch.Tensor) and alpha.dim() == 0 and not alpha.requires_grad:
        alpha = alpha.item()
    if isinstance(alpha, bool):
        raise ArgumentError(f"{op}: alpha is bool {alpha}, expected a real number")
    number = _number(op, "alpha", alpha, other)
    return other if alpha == 1 else _mul(other, number, contract)


def add(
    input: Operand, other: Operand, *, alpha: float = 1, contract: Contract | str | None = None
) -> torch.Tensor:
    """`input + alpha * other`, broadcast, float32: the product is rounded, then the sum.

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
    """`input - alpha * other`, broadcast, float32: the product is rounded, then the difference.

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
    """`input * other`, broadcast, float32, rounded once.

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
    """`input / other`, broadcast, float32, rounded once.

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
    """The larger of two elements, broadcast, float32; NaN if either is NaN.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.maximum.html
    """
    check_tensor("maximum", input=input, other=other)
    return _maximum(input, other, contract_name(contract))


def minimum(input: torch.Tensor, other: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """The smaller of two elements, broadcast, float32; NaN if either is NaN.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.minimum.html
    """
    check_tensor("minimum", input=input, other=other)
    return _minimum(input, other, contract_name(contract))


def relu(
    input: torch.Tensor, inplace: bool = False, *, contract: Contract | str | None = None
) -> torch.Tensor:
    """`max(input, 0)`, any shape, float32; NaN and -0 stay. With `inplace`, into `input`.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html
    """
    contract_name(contract)
    check_tensor("relu", input=input)
    check_bool("relu", inplace=inplace)
    return input.copy_(_relu(input)) if inplace else _relu(input)


def abs(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """Absolute value, any shape, float32.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.abs.html
    """
    contract_name(contract)
    check_tensor("abs", input=input)
    return _abs(input)


def exp(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """e to the power of `input`, any shape, float32, correctly rounded.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.exp.html
    """
    contract_name(contract)
    check_tensor("exp", input=input)
    return _exp(input)


def expm1(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """`exp(input) - 1`, any shape, float32, correctly rounded.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.expm1.html
    """
    contract_name(contract)
    check_tensor("expm1", input=input)
    return _expm1(input)


def log(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """Natural logarithm, any shape, float32, correctly rounded.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.log.html
    """
    contract_name(contract)
    check_tensor("log", input=input)
    return _log(input)


def neg(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """`-input`, any shape, float32.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.neg.html
    """
    contract_name(contract)
    check_tensor("neg", input=input)
    return _neg(input)


def reciprocal(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """`1 / input`, any shape, float32, rounded once.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.reciprocal.html
    """
    contract_name(contract)
    check_tensor("reciprocal", input=input)
    return _reciprocal(input)


def sigmoid(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """`1 / (1 + exp(-input))`, any shape, float32, correctly rounded.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.sigmoid.html
    """
    contract_name(contract)
    check_tensor("sigmoid", input=input)
    return _sigmoid(input)


def sign(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """1, 0 or -1, any shape, float32; 0 for NaN, as torch.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.sign.html
    """
    contract_name(contract)
    check_tensor("sign", input=input)
    return _sign(input)


def sqrt(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """Square root, any shape, float32, rounded once.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.sqrt.html
    """
    contract_name(contract)
    check_tensor("sqrt", input=input)
    return _sqrt(input)


def square(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """`input * input`, any shape, float32, rounded once.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.square.html
    """
    contract_name(contract)
    check_tensor("square", input=input)
    return _square(input)


def tanh(input: torch.Tensor, *, contract: Contract | str | None = None) -> torch.Tensor:
    """Hyperbolic tangent, any shape, float32, correctly rounded.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.tanh.html
    """
    contract_name(contract)
    check_tensor("tanh", input=input)
    return _tanh(input)
