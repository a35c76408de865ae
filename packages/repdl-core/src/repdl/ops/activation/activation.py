"""Activations: fixed sequences of operations, some around the exact functions."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repdl import registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import UnsupportedError, check
from repdl.ops.activation.smooth import selu
from repdl.ops.common.inplace import applied
from repdl.ops.common.number import constant
from repdl.ops.declare.pointwise import below, pointwise
from repdl.ops.declare.public import public
from repdl.ops.pointwise.unary import _add, _div, _mul, _sub
from repdl.registry.arguments import as_float
from repdl.registry.aten import computes
from repdl.registry.autocast import FLOAT32_ON_CUDA

__all__ = ["elu", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "silu", "softplus"]

Tensor = torch.Tensor
_ops = registry.functions
_KINDS = ("none", "tanh")
_ROOT_HALF, _PDF_0 = 0.7071067811865476, 0.3989422804014327  # sqrt(1/2), 1 / sqrt(2 pi)
_SCALE, _CUBIC = 0.7978845608028654, 0.044715  # sqrt(2 / pi)
_CUBIC_3, _CUBIC_3_SCALE = 0.134145, 0.10703222440890037  # 3 * _CUBIC, and that times _SCALE


def _check_kind(op: str, approximate: str) -> None:
    check(op, approximate in _KINDS, lambda: f"approximate is {approximate!r}, expected 'none' or 'tanh'")


def _silu_second(x: Tensor) -> Tensor:
    """silu'' = s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x)."""
    s = _ops.sigmoid(x)
    return _mul(_mul(s, _sub(1, s)), _add(2, _mul(x, _sub(1, _add(s, s)))))


def _gelu_second(x: Tensor, approximate: str) -> Tensor:
    """gelu'': pdf(x) (2 - x**2); with tanh t of u(x) and v = 1 - t**2: v (u' + x (u'' / 2 - t u'**2))."""
    square = _mul(x, x)
    if approximate == "none":
        return _mul(_mul(_ops.exp(_mul(square, -0.5)), _PDF_0), _sub(2, square))
    t = _ops.tanh(_mul(_add(x, _mul(_mul(square, x), _CUBIC)), _SCALE))
    slope = _mul(_add(1, _mul(square, _CUBIC_3)), _SCALE)
    curvature = _sub(_mul(x, _CUBIC_3_SCALE), _mul(t, _mul(slope, slope)))
    return _mul(_sub(1, _mul(t, t)), _add(slope, _mul(x, curvature)))


_silu: Callable[..., Tensor] = pointwise(
    "silu(Tensor input) -> Tensor",
    {"input": lambda g, input: _silu_backward(g, input)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="`x * sigmoid(x)`",
    backward="`silu_backward(g, x)`",
)
_silu_backward: Callable[..., Tensor] = pointwise(
    "silu_backward(Tensor grad, Tensor input) -> Tensor",
    {
        "grad": lambda g, input: _silu_backward(g, input),
        "input": lambda g, grad, input: _mul(_mul(g, grad), _silu_second(input)),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order="`g * (s * (1 + x * (1 - s)))`, s = `sigmoid(x)`",
    backward="for grad the same op of h and x; for input `(h * g) * d`, d = `(s * (1 - s)) * (2 + x * (1 - (s + s)))`",
)
_elu: Callable[..., Tensor] = pointwise(
    "elu(Tensor input, float alpha) -> Tensor",
    {"input": lambda g, input, alpha: _elu_backward(g, input, alpha)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="x if x > 0, else `expm1(x) * alpha`",
    backward="`elu_backward(g, x, alpha)`",
    tried=[(1.0,), (-0.3,)],
)
_elu_backward: Callable[..., Tensor] = pointwise(
    "elu_backward(Tensor grad, Tensor input, float alpha) -> Tensor",
    {
        "grad": lambda g, input, alpha: _elu_backward(g, input, alpha),
        "input": lambda g, grad, input, alpha: _elu_second(g, grad, input, alpha),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order="g if x > 0, else `g * (exp(x) * alpha)`",
    backward="for grad the same op of h and x; for input `(h * g) * (exp(minimum(x, 0)) * alpha)`, +0 where x > 0",
    tried=[(1.0,), (-0.3,)],
)
_gelu: Callable[..., Tensor] = pointwise(
    "gelu(Tensor input, str approximate) -> Tensor",
    {"input": lambda g, input, approximate: _gelu_backward(g, input, approximate)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    check_options=lambda approximate: _check_kind("gelu", approximate),
    order="none: `(x * 0.5) * (1 + erf(x * sqrt(1/2)))`; tanh: `(x * 0.5) * (1 + t)`, t = `tanh((x + ((x * x) * x) * "
    "0.044715) * sqrt(2 / pi))`",
    backward="`gelu_backward(g, x, approximate)`",
    tried=[("none",), ("tanh",)],
)
_gelu_backward: Callable[..., Tensor] = pointwise(
    "gelu_backward(Tensor grad, Tensor input, str approximate) -> Tensor",
    {
        "grad": lambda g, input, approximate: _gelu_backward(g, input, approximate),
        "input": lambda g, grad, input, approximate: _mul(_mul(g, grad), _gelu_second(input, approximate)),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    check_options=lambda approximate: _check_kind("gelu_backward", approximate),
    order="none: `g * (0.5 * (1 + erf(x * sqrt(1/2))) + x * (exp((x * x) * -0.5) * (1 / sqrt(2 pi))))`; tanh, with t "
    "of gelu: `g * (0.5 * (1 + t) + ((x * 0.5) * (1 - t * t)) * ((1 + (x * x) * 0.134145) * sqrt(2 / pi)))`",
    backward="for grad the same op of h and x; for input `(h * g) * d`; none: d = `(exp((x * x) * -0.5) * (1 / sqrt(2 "
    "pi))) * (2 - x * x)`; tanh: d = `(1 - t * t) * (u + x * (x * (0.134145 * sqrt(2 / pi)) - t * (u * u)))`, "
    "u = `(1 + (x * x) * 0.134145) * sqrt(2 / pi)`",
    tried=[("none",), ("tanh",)],
)


_hardsigmoid: Callable[..., Tensor] = pointwise(
    "hardsigmoid(Tensor input) -> Tensor",
    {"input": lambda g, input: _between(input, _div(g, 6.0))},
    family="activation",
    order="`c / 6`, c = x + 3, taken for +0 if below 0 and for 6 if above 6",
    backward="`g / 6` where -3 < x < 3, else +0",
)
_hardswish: Callable[..., Tensor] = pointwise(
    "hardswish(Tensor input) -> Tensor",
    {"input": lambda g, input: _hardswish_backward(g, input)},
    family="activation",
    order="`(x * c) / 6`, c = x + 3, taken for +0 if below 0 and for 6 if above 6",
    backward="`hardswish_backward(g, x)`",
)
_hardswish_backward: Callable[..., Tensor] = pointwise(
    "hardswish_backward(Tensor grad, Tensor input) -> Tensor",
    {
        "grad": lambda g, input: _hardswish_backward(g, input),
        "input": lambda g, grad, input: _between(input, _div(_mul(g, grad), 3.0)),
    },
    family="activation",
    same_shape=("grad", "input"),
    order="+0 if x <= -3, `g * (x / 3 + 0.5)` if x < 3, else g",
    backward="for grad the same op of h and x; for input `(h * g) / 3` where -3 < x < 3, else +0",
)
_leaky_relu: Callable[..., Tensor] = pointwise(
    "leaky_relu(Tensor input, float negative_slope) -> Tensor",
    {"input": lambda g, input, negative_slope: _leaky_relu_backward(g, input, negative_slope)},
    family="activation",
    order="x if x > 0, else `x * negative_slope`",
    backward="`leaky_relu_backward(g, x, negative_slope)`",
    tried=[(0.01,), (-0.3,)],
)
_leaky_relu_backward: Callable[..., Tensor] = pointwise(
    "leaky_relu_backward(Tensor grad, Tensor input, float negative_slope) -> Tensor",
    {"grad": lambda g, input, negative_slope: _leaky_relu_backward(g, input, negative_slope)},
    family="activation",
    same_shape=("grad", "input"),
    order="g if x > 0, else `g * negative_slope`",
    backward="for grad the same op of h and x, for input none",
    tried=[(0.01,), (-0.3,)],
)
_softplus: Callable[..., Tensor] = pointwise(
    "softplus(Tensor input, float beta, float threshold) -> Tensor",
    {"input": lambda g, input, beta, threshold: _softplus_backward(g, input, beta, threshold)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    autocast=FLOAT32_ON_CUDA,
    order="x if z > threshold, else `log1p(exp(z)) / beta`, z = `x * beta`",
    backward="`softplus_backward(g, x, beta, threshold)`",
    tried=[(1.0, 20.0), (0.7, 2.0)],
)
_softplus_backward: Callable[..., Tensor] = pointwise(
    "softplus_backward(Tensor grad, Tensor input, float beta, float threshold) -> Tensor",
    {
        "grad": lambda g, input, beta, threshold: _softplus_backward(g, input, beta, threshold),
        "input": lambda g, grad, input, beta, threshold: _softplus_second(g, grad, input, beta, threshold),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order="g if z > threshold, else `g * sigmoid(z)`, z = `x * beta`",
    backward="for grad the same op of h and x; for input `((h * g) * beta) * (s * (1 - s))`, s = `sigmoid(z)`, "
    "+0 where z > threshold",
    tried=[(1.0, 20.0), (0.7, 2.0)],
)


def _elu_second(g: Tensor, grad: Tensor, input: Tensor, alpha: float) -> Tensor:
    """g grad alpha exp(x) up to 0; beyond it 0, without the infinities of exp."""
    zero = constant(0.0, input.dtype, input.device)
    slope = _mul(_ops.exp(_ops.minimum(input, zero, "v1")), alpha)
    above = _ops.sign(input.detach()) > 0  # as x > 0, but for subnormals that torch may take for 0
    return _ops.where(above, torch.zeros_like(slope), _mul(_mul(g, grad), slope), "v1")


def _between(input: Tensor, inside: Tensor) -> Tensor:
    """`inside` where -3 < input < 3, else 0."""
    x = input.detach()
    return _ops.where((x > -3.0) & (x < 3.0), inside, torch.zeros_like(inside), "v1")


def _softplus_second(g: Tensor, grad: Tensor, input: Tensor, beta: float, threshold: float) -> Tensor:
    """g grad beta s (1 - s), s = sigmoid(beta input), up to the threshold, 0 beyond."""
    z = _mul(input, beta)
    s = _ops.sigmoid(z)
    second = _mul(_mul(_mul(g, grad), beta), _mul(s, _sub(1, s)))
    beyond = below(constant(threshold, z.dtype, z.device), z, "v1")
    return _ops.where(beyond, torch.zeros_like(second), second, "v1")


@public("activation")
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`input` where it is above 0, else `(exp(input) - 1) * alpha`, any shape. With `inplace`, into `input`.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    contract_name(contract)
    factor = as_float("elu", "alpha", alpha)
    return applied("elu", lambda x: _elu(x, factor), input, inplace)


@public("activation")
def gelu(input: Tensor, approximate: str = "none", *, contract: Contract | str | None = None) -> Tensor:
    """`input * (1 + erf(input / sqrt(2))) / 2`, any shape; "tanh" approximates it as torch does.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
        ShapeError: if `approximate` is neither "none" nor "tanh".
    """
    contract_name(contract)
    _check_kind("gelu", approximate)
    return _gelu(input, approximate)


@public("activation")
def silu(input: Tensor, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`input * sigmoid(input)`, any shape, two roundings. With `inplace`, into `input`.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    contract_name(contract)
    return applied("silu", _silu, input, inplace)


@public("activation")
def hardsigmoid(input: Tensor, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`clamp(input + 3, 0, 6) / 6`, any shape and floating-point dtype. With `inplace`, into `input`."""
    contract_name(contract)
    return applied("hardsigmoid", _hardsigmoid, input, inplace)


@public("activation")
def hardswish(input: Tensor, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`input * clamp(input + 3, 0, 6) / 6`, any shape and floating-point dtype. With `inplace`, into `input`."""
    contract_name(contract)
    return applied("hardswish", _hardswish, input, inplace)


@public("activation")
def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False, *, contract: Contract | str | None = None
) -> Tensor:
    """`input` where it is above 0, else `input * negative_slope`; any shape and floating-point dtype.

    With `inplace`, into `input`.
    """
    contract_name(contract)
    slope = as_float("leaky_relu", "negative_slope", negative_slope)
    return applied("leaky_relu", lambda x: _leaky_relu(x, slope), input, inplace)


@public("activation")
def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, contract: Contract | str | None = None
) -> Tensor:
    """`log(1 + exp(beta * input)) / beta`, or `input` where `beta * input > threshold`; any shape.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    contract_name(contract)
    numbers = as_float("softplus", "beta", beta), as_float("softplus", "threshold", threshold)
    return _softplus(input, *numbers)


@computes("elu")
def _aten_elu(input: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    if input_scale != 1 or scale not in (1, 1.0507009873554805):
        raise UnsupportedError(f"elu: scale is {scale} and input_scale {input_scale}, expected 1, or those of selu")
    return elu(input, alpha) if scale == 1 else selu(input)
