"""Activations: fixed sequences of operations, some around the correctly rounded functions."""

from __future__ import annotations

from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import UnsupportedError, check
from repdl.ops.activation.smooth import selu
from repdl.ops.common import applied
from repdl.ops.declare import Expression, Number, Slope, choose, f, named, pointwise, public
from repdl.registry import FLOAT32_ON_CUDA, as_float, computes, functions as _ops

__all__ = ["elu", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "silu", "softplus"]

_KINDS = ("none", "tanh")
_PDF_0, _SCALE = Number(0.3989422804014327, "1 / sqrt(2 pi)"), Number(0.7978845608028654, "sqrt(2 / pi)")
_CUBIC, _CUBIC_3 = 0.044715, 0.134145
_CUBIC_3_SCALE = Number(0.10703222440890037, "0.134145 * sqrt(2 / pi)")


def _check_kind(op: str, approximate: str) -> None:
    check(op, approximate in _KINDS, lambda: f"approximate is {approximate!r}, expected 'none' or 'tanh'")


def _silu_second(h: Expression, g: Expression, x: Expression) -> Expression:
    both, s = h * g, named("s", f.sigmoid(x))
    return both * ((s * (1 - s)) * (2 + x * (1 - (s + s))))


def _gelu_second(h: Expression, g: Expression, x: Expression, approximate: Expression) -> Expression:
    both, square = h * g, x * x
    by_erf = both * ((f.exp(square * -0.5) * _PDF_0) * (2 - square))
    t = named("t", f.tanh((x + (square * x) * _CUBIC) * _SCALE))
    u = named("u", (1 + square * _CUBIC_3) * _SCALE)
    curvature = x * _CUBIC_3_SCALE - t * (u * u)
    by_tanh = both * ((1 - t * t) * (u + x * curvature))
    return choose(approximate, {"none": by_erf, "tanh": by_tanh})


def _elu_second(h: Expression, g: Expression, x: Expression, alpha: Expression) -> Expression:
    """Beyond 0 without the infinities of exp."""
    slope = f.exp(f.minimum(x, 0)) * alpha
    return f.where(x > 0, 0, (h * g) * slope)


def _between(x: Expression, inside: Expression) -> Expression:
    return f.where((x > -3) & (x < 3), inside, 0)


def _softplus_second(
    h: Expression, g: Expression, x: Expression, beta: Expression, threshold: Expression
) -> Expression:
    z = named("z", x * beta)
    s = named("s", f.sigmoid(z))
    return f.where(z > threshold, 0, ((h * g) * beta) * (s * (1 - s)))


pointwise(
    "silu(Tensor input) -> Tensor",
    Slope("`g * (s * (1 + x * (1 - s)))`, s = `sigmoid(x)`", _silu_second),
    family="activation",
    order="`x * sigmoid(x)`",
)
pointwise(
    "elu(Tensor input, float alpha) -> Tensor",
    Slope("g if x > 0, else `g * (exp(x) * alpha)`", _elu_second),
    family="activation",
    order="x if x > 0, else `expm1(x) * alpha`",
    cases=[(1.0,), (-0.3,)],
)
pointwise(
    "gelu(Tensor input, str approximate) -> Tensor",
    Slope(
        "none: `g * (0.5 * (1 + erf(x * sqrt(1/2))) + x * (exp((x * x) * -0.5) * (1 / sqrt(2 pi))))`; tanh, with t "
        "of gelu: `g * (0.5 * (1 + t) + ((x * 0.5) * (1 - t * t)) * ((1 + (x * x) * 0.134145) * sqrt(2 / pi)))`",
        _gelu_second,
    ),
    family="activation",
    check_options=_check_kind,
    order="none: `(x * 0.5) * (1 + erf(x * sqrt(1/2)))`; tanh: `(x * 0.5) * (1 + t)`, t = `tanh((x + ((x * x) * x) * "
    "0.044715) * sqrt(2 / pi))`",
    cases=[("none",), ("tanh",)],
)


pointwise(
    "hardsigmoid(Tensor input) -> Tensor",
    {"input": lambda g, x: _between(x, g / 6)},
    family="activation",
    order="`c / 6`, c = x + 3, taken for +0 if below 0 and for 6 if above 6",
)
pointwise(
    "hardswish(Tensor input) -> Tensor",
    Slope("+0 if x <= -3, `g * (x / 3 + 0.5)` if x < 3, else g", lambda h, g, x: _between(x, (h * g) / 3)),
    family="activation",
    order="`(x * c) / 6`, c = x + 3, taken for +0 if below 0 and for 6 if above 6",
)
pointwise(
    "leaky_relu(Tensor input, float negative_slope) -> Tensor",
    Slope("g if x > 0, else `g * negative_slope`"),
    family="activation",
    order="x if x > 0, else `x * negative_slope`",
    cases=[(0.01,), (-0.3,)],
)
pointwise(
    "softplus(Tensor input, float beta, float threshold) -> Tensor",
    Slope("g if z > threshold, else `g * sigmoid(z)`, z = `x * beta`", _softplus_second),
    family="activation",
    autocast=FLOAT32_ON_CUDA,
    order="x if z > threshold, else `log1p(exp(z)) / beta`, z = `x * beta`",
    cases=[(1.0, 20.0), (0.7, 2.0)],
)


@public("activation")
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`input` where it is above 0, else `(exp(input) - 1) * alpha`, any shape. With `inplace`, into `input`."""
    factor = as_float("elu", "alpha", alpha)
    return applied("elu", lambda x: _ops.elu(x, factor), input, inplace)


@public("activation")
def gelu(input: Tensor, approximate: str = "none", *, contract: ContractLike = None) -> Tensor:
    """`input * (1 + erf(input / sqrt(2))) / 2`, any shape; "tanh" approximates it as torch does.

    Raises:
        ShapeError: if `approximate` is neither "none" nor "tanh".
    """
    _check_kind("gelu", approximate)
    return _ops.gelu(input, approximate)


@public("activation")
def silu(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`input * sigmoid(input)`, any shape, two roundings. With `inplace`, into `input`."""
    return applied("silu", _ops.silu, input, inplace)


@public("activation")
def hardsigmoid(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`clamp(input + 3, 0, 6) / 6`, any shape and floating-point dtype. With `inplace`, into `input`."""
    return applied("hardsigmoid", _ops.hardsigmoid, input, inplace)


@public("activation")
def hardswish(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`input * clamp(input + 3, 0, 6) / 6`, any shape and floating-point dtype. With `inplace`, into `input`."""
    return applied("hardswish", _ops.hardswish, input, inplace)


@public("activation")
def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False, *, contract: ContractLike = None
) -> Tensor:
    """`input` where it is above 0, else `input * negative_slope`; any shape and floating-point dtype.

    With `inplace`, into `input`.
    """
    slope = as_float("leaky_relu", "negative_slope", negative_slope)
    return applied("leaky_relu", lambda x: _ops.leaky_relu(x, slope), input, inplace)


@public("activation")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, contract: ContractLike = None) -> Tensor:
    """`log(1 + exp(beta * input)) / beta`, or `input` where `beta * input > threshold`; any shape."""
    numbers = as_float("softplus", "beta", beta), as_float("softplus", "threshold", threshold)
    return _ops.softplus(input, *numbers)


@computes("elu")
def _aten_elu(input: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    if input_scale != 1 or scale not in (1, 1.0507009873554805):
        raise UnsupportedError(f"elu: scale is {scale} and input_scale {input_scale}, expected 1, or those of selu")
    return elu(input, alpha) if scale == 1 else selu(input)
