"""Activations without bounds or thresholds: celu, glu, logsigmoid, mish, selu, softsign, tanhshrink."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repdl import registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import SINGLE, Dtypes
from repdl.dtypes.rounding import is_zero
from repdl.errors import check
from repdl.ops.common.inplace import applied
from repdl.ops.common.number import constant
from repdl.ops.common.reduce import normalize_dim
from repdl.ops.declare.pointwise import pointwise
from repdl.ops.declare.public import public
from repdl.ops.pointwise.unary import _add, _div, _mul, _sub
from repdl.registry import composite
from repdl.registry.arguments import as_float
from repdl.registry.aten import computes
from repdl.registry.declaration import ROWS, Row, Tried, item

__all__ = ["celu", "glu", "logsigmoid", "mish", "selu", "softsign", "tanhshrink"]

Tensor = torch.Tensor
_ops = registry.functions
_SELU = 1.7580993408473766
"""Scale times alpha of SELU."""


def _up_to_zero(input: Tensor, factor: Tensor, slope: Tensor) -> Tensor:
    """`factor * slope` where input is not above 0, else +0, also where the slope is infinite."""
    above = _ops.sign(input.detach()) > 0  # as x > 0, but for subnormals that torch may take for 0
    return _ops.where(above, torch.zeros_like(slope), _mul(factor, slope), "v1")


def _negative_part(input: Tensor) -> Tensor:
    return _ops.minimum(input, constant(0.0, input.dtype, input.device), "v1")


def _mish_second(x: Tensor) -> Tensor:
    """mish'' = s v (2 + x ((1 - s) - 2 t s)), s = sigmoid(x), t = tanh(log1p(exp(x))), v = 1 - t**2."""
    s, t = _ops.sigmoid(x), _ops.tanh(_ops.log1p(_ops.exp(x)))
    curvature = _sub(_sub(1, s), _mul(_mul(2, t), s))
    return _mul(_mul(s, _sub(1, _mul(t, t))), _add(2, _mul(x, curvature)))


_celu: Callable[..., Tensor] = pointwise(
    "celu(Tensor input, float alpha) -> Tensor",
    {"input": lambda g, input, alpha: _celu_backward(g, input, alpha)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="x if x > 0, else `expm1(x / alpha) * alpha`",
    backward="`celu_backward(g, x, alpha)`",
    tried=[(1.0,), (0.3,)],
)
_celu_backward: Callable[..., Tensor] = pointwise(
    "celu_backward(Tensor grad, Tensor input, float alpha) -> Tensor",
    {
        "grad": lambda g, input, alpha: _celu_backward(g, input, alpha),
        "input": lambda g, grad, input, alpha: _up_to_zero(
            input, _mul(g, grad), _div(_ops.exp(_div(_negative_part(input), alpha)), alpha)
        ),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order="g if x > 0, else `g * exp(x / alpha)`",
    backward="for grad the same op of h and x; for input `(h * g) * (exp(minimum(x, 0) / alpha) / alpha)`, +0 where "
    "x > 0",
    tried=[(1.0,), (0.3,)],
)
_selu: Callable[..., Tensor] = pointwise(
    "selu(Tensor input) -> Tensor",
    {"input": lambda g, input: _selu_backward(g, input)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order=f"`x * 1.0507009873554805` if x > 0, else `expm1(x) * {_SELU}`",
    backward="`selu_backward(g, x)`",
)
_selu_backward: Callable[..., Tensor] = pointwise(
    "selu_backward(Tensor grad, Tensor input) -> Tensor",
    {
        "grad": lambda g, input: _selu_backward(g, input),
        "input": lambda g, grad, input: _up_to_zero(input, _mul(g, grad), _mul(_ops.exp(_negative_part(input)), _SELU)),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order=f"`g * s`, s = 1.0507009873554805 if x > 0, else `exp(x) * {_SELU}`",
    backward=f"for grad the same op of h and x; for input `(h * g) * (exp(minimum(x, 0)) * {_SELU})`, +0 where x > 0",
)
_logsigmoid: Callable[..., Tensor] = pointwise(
    "logsigmoid(Tensor input) -> Tensor",
    {"input": lambda g, input: _mul(g, _ops.sigmoid(_ops.neg(input)))},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="`minimum(x, 0) - log1p(exp(-abs(x)))`",
    backward="`g * sigmoid(-x)`",
)
_mish: Callable[..., Tensor] = pointwise(
    "mish(Tensor input) -> Tensor",
    {"input": lambda g, input: _mish_backward(g, input)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="`x * tanh(log1p(exp(x)))`",
    backward="`mish_backward(g, x)`",
)
_mish_backward: Callable[..., Tensor] = pointwise(
    "mish_backward(Tensor grad, Tensor input) -> Tensor",
    {
        "grad": lambda g, input: _mish_backward(g, input),
        "input": lambda g, grad, input: _mul(_mul(g, grad), _mish_second(input)),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order="`g * (t + (x * sigmoid(x)) * (1 - t * t))`, t = `tanh(log1p(exp(x)))`",
    backward="for grad the same op of h and x; for input `(h * g) * ((s * (1 - t * t)) * (2 + x * ((1 - s) - "
    "(2 * t) * s)))`, s = `sigmoid(x)`",
)
_softsign: Callable[..., Tensor] = pointwise(
    "softsign(Tensor input) -> Tensor",
    {"input": lambda g, input: _softsign_slope(g, input)},
    family="activation",
    order="`x / (1 + abs(x))`",
    backward="`(g / d) / d`, d = `1 + abs(x)`",
)
_tanhshrink: Callable[..., Tensor] = pointwise(
    "tanhshrink(Tensor input) -> Tensor",
    {"input": lambda g, input: _mul(g, _ops.square(_ops.tanh(input)))},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="`x - tanh(x)`",
    backward="`g * (t * t)`, t = `tanh(x)`",
)


def _softsign_slope(g: Tensor, input: Tensor) -> Tensor:
    size = _add(1, _ops.abs(input))
    return _div(_div(g, size), size)


def _check_glu(input: Tensor, dim: int, contract: str) -> None:
    check("glu", input.dim() > 0, "input is 0-D, expected 1-D or more")
    check("glu", 0 <= dim < input.dim(), lambda: f"dim is {dim}, expected 0 to {input.dim() - 1}")
    size = input.shape[dim]
    check("glu", size % 2 == 0, lambda: f"input.shape[{dim}] is {size}, expected an even size")


def _glu_formula(input: Tensor, dim: int, contract: str) -> Tensor:
    first, second = input.split(input.shape[dim] // 2, dim) if input.shape[dim] else (input, input)
    return _ops.mul(first, _ops.sigmoid(second), contract)


ROWS["glu"] = Row(
    item(
        "glu(input, dim, contract) -> output",
        "`a * sigmoid(b)`, a and b the halves of x along dim, which has an even size",
        "that of the formula",
    ),
    Tried("glu"),
)
_glu: Callable[..., Tensor] = composite(
    "glu",
    "(Tensor input, int dim, str contract) -> Tensor",
    _glu_formula,
    calls=("mul", "sigmoid"),
    check=_check_glu,
    dtypes=Dtypes(SINGLE),
    family="activation",
)


@public("activation")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`input` where it is above 0, else `(exp(input / alpha) - 1) * alpha`, any shape. With `inplace`, into `input`.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
        ShapeError: if `alpha` is 0.
    """
    contract_name(contract)
    width = as_float("celu", "alpha", alpha)
    check("celu", not is_zero(width), "alpha is 0, expected another number")
    return applied("celu", lambda x: _celu(x, width), input, inplace)


@public("activation")
def selu(input: Tensor, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`scale * elu(input, alpha)` with the constants that keep mean 0 and variance 1, any shape.

    With `inplace`, into `input`.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    contract_name(contract)
    return applied("selu", _selu, input, inplace)


@public("activation")
def mish(input: Tensor, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`input * tanh(softplus(input))`, any shape. With `inplace`, into `input`.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    contract_name(contract)
    return applied("mish", _mish, input, inplace)


@public("activation")
def logsigmoid(input: Tensor, *, contract: Contract | str | None = None) -> Tensor:
    """`log(sigmoid(input))` without its underflow, any shape.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    contract_name(contract)
    return _logsigmoid(input)


@public("activation")
def softsign(input: Tensor, *, contract: Contract | str | None = None) -> Tensor:
    """`input / (1 + |input|)`, any shape and floating-point dtype."""
    contract_name(contract)
    return _softsign(input)


@public("activation")
def tanhshrink(input: Tensor, *, contract: Contract | str | None = None) -> Tensor:
    """`input - tanh(input)`, any shape.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    contract_name(contract)
    return _tanhshrink(input)


@public("activation")
def glu(input: Tensor, dim: int = -1, *, contract: Contract | str | None = None) -> Tensor:
    """`a * sigmoid(b)`, a and b the halves of `input` along `dim`: `(..., 2 N, ...) -> (..., N, ...)`.

    Raises:
        ShapeError: if `dim` does not exist or its size is odd, or for a 0-D input.
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
    """
    name = contract_name(contract)
    check("glu", input.dim() > 0, "input is 0-D, expected 1-D or more")
    return _glu(input, normalize_dim("glu", dim, input.dim()), name)


@computes("log_sigmoid_forward")
def _aten_log_sigmoid_forward(input: Tensor) -> tuple[Tensor, Tensor]:
    return logsigmoid(input), input.new_empty(0)


computes("log_sigmoid")(logsigmoid)
