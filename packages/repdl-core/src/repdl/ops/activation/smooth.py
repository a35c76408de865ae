"""Activations without bounds or thresholds: celu, glu, logsigmoid, mish, selu, softsign, tanhshrink."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import SINGLE, Dtypes
from repdl.dtypes.rounding import is_zero
from repdl.errors import check
from repdl.ops.common.inplace import applied
from repdl.ops.common.reduce import normalize_dim
from repdl.ops.declare.expression import Expression, f, named
from repdl.ops.declare.pointwise import pointwise
from repdl.ops.declare.public import public
from repdl.registry import composite, functions as _ops
from repdl.registry.arguments import as_float
from repdl.registry.aten import computes
from repdl.registry.declaration import DECLARATIONS, CaseSpec, Declaration, item

__all__ = ["celu", "glu", "logsigmoid", "mish", "selu", "softsign", "tanhshrink"]

_SELU = 1.7580993408473766
"""Scale times alpha of SELU."""


def _up_to_zero(x: Expression, factor: Expression, slope: Expression) -> Expression:
    """`factor * slope` where x is not above 0, else +0, also where the slope is infinite."""
    return f.where(x > 0, 0, factor * slope)


def _mish_second(h: Expression, g: Expression, x: Expression) -> Expression:
    both, s, t = h * g, named("s", f.sigmoid(x)), named("t", f.tanh(f.log1p(f.exp(x))))
    curvature = (1 - s) - (2 * t) * s
    return both * ((s * (1 - t * t)) * (2 + x * curvature))


def _softsign_slope(g: Expression, x: Expression) -> Expression:
    d = named("d", 1 + f.abs(x))
    return (g / d) / d


_celu: Callable[..., Tensor] = pointwise(
    "celu(Tensor input, float alpha) -> Tensor",
    {"input": lambda g, x, alpha: f.celu_backward(g, x, alpha)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="x if x > 0, else `expm1(x / alpha) * alpha`",
    cases=[(1.0,), (0.3,)],
)
pointwise(
    "celu_backward(Tensor grad, Tensor input, float alpha) -> Tensor",
    {
        "grad": lambda h, x, alpha: f.celu_backward(h, x, alpha),
        "input": lambda h, g, x, alpha: _up_to_zero(x, h * g, f.exp(f.minimum(x, 0) / alpha) / alpha),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order="g if x > 0, else `g * exp(x / alpha)`",
    cases=[(1.0,), (0.3,)],
)
_selu: Callable[..., Tensor] = pointwise(
    "selu(Tensor input) -> Tensor",
    {"input": lambda g, x: f.selu_backward(g, x)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order=f"`x * 1.0507009873554805` if x > 0, else `expm1(x) * {_SELU}`",
)
pointwise(
    "selu_backward(Tensor grad, Tensor input) -> Tensor",
    {
        "grad": lambda h, x: f.selu_backward(h, x),
        "input": lambda h, g, x: _up_to_zero(x, h * g, f.exp(f.minimum(x, 0)) * _SELU),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order=f"`g * s`, s = 1.0507009873554805 if x > 0, else `exp(x) * {_SELU}`",
)
_logsigmoid: Callable[..., Tensor] = pointwise(
    "logsigmoid(Tensor input) -> Tensor",
    {"input": lambda g, x: g * f.sigmoid(-x)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="`minimum(x, 0) - log1p(exp(-abs(x)))`",
)
_mish: Callable[..., Tensor] = pointwise(
    "mish(Tensor input) -> Tensor",
    {"input": lambda g, x: f.mish_backward(g, x)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="`x * tanh(log1p(exp(x)))`",
)
pointwise(
    "mish_backward(Tensor grad, Tensor input) -> Tensor",
    {
        "grad": lambda h, x: f.mish_backward(h, x),
        "input": _mish_second,
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    order="`g * (t + (x * sigmoid(x)) * (1 - t * t))`, t = `tanh(log1p(exp(x)))`",
)
_softsign: Callable[..., Tensor] = pointwise(
    "softsign(Tensor input) -> Tensor",
    {"input": _softsign_slope},
    family="activation",
    order="`x / (1 + abs(x))`",
)
_tanhshrink: Callable[..., Tensor] = pointwise(
    "tanhshrink(Tensor input) -> Tensor",
    {"input": lambda g, x: g * f.square(f.tanh(x))},
    family="activation",
    dtypes=Dtypes(SINGLE),
    order="`x - tanh(x)`",
)


def _check_glu(input: Tensor, dim: int, contract: str) -> None:
    check("glu", input.dim() > 0, "input is 0-D, expected 1-D or more")
    check("glu", 0 <= dim < input.dim(), lambda: f"dim is {dim}, expected 0 to {input.dim() - 1}")
    size = input.shape[dim]
    check("glu", size % 2 == 0, lambda: f"input.shape[{dim}] is {size}, expected an even size")


def _glu_formula(input: Tensor, dim: int, contract: str) -> Tensor:
    first, second = input.split(input.shape[dim] // 2, dim) if input.shape[dim] else (input, input)
    return _ops.mul(first, _ops.sigmoid(second), contract)


DECLARATIONS["glu"] = Declaration(
    item(
        "glu(input, dim, contract) -> output",
        "`a * sigmoid(b)`, a and b the halves of x along dim, which has an even size",
        "that of the formula",
    ),
    CaseSpec("glu"),
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
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`input` where it is above 0, else `(exp(input / alpha) - 1) * alpha`, any shape. With `inplace`, into `input`.

    Raises:
        ShapeError: if `alpha` is 0.
    """
    width = as_float("celu", "alpha", alpha)
    check("celu", not is_zero(width), "alpha is 0, expected another number")
    return applied("celu", lambda x: _celu(x, width), input, inplace)


@public("activation")
def selu(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`scale * elu(input, alpha)` with the constants that keep mean 0 and variance 1, any shape.

    With `inplace`, into `input`.
    """
    return applied("selu", _selu, input, inplace)


@public("activation")
def mish(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`input * tanh(softplus(input))`, any shape. With `inplace`, into `input`."""
    return applied("mish", _mish, input, inplace)


@public("activation")
def logsigmoid(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`log(sigmoid(input))` without its underflow, any shape."""
    return _logsigmoid(input)


@public("activation")
def softsign(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`input / (1 + |input|)`, any shape and floating-point dtype."""
    return _softsign(input)


@public("activation")
def tanhshrink(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`input - tanh(input)`, any shape."""
    return _tanhshrink(input)


@public("activation")
def glu(input: Tensor, dim: int = -1, *, contract: ContractLike = None) -> Tensor:
    """`a * sigmoid(b)`, a and b the halves of `input` along `dim`: `(..., 2 N, ...) -> (..., N, ...)`.

    Raises:
        ShapeError: if `dim` does not exist or its size is odd, or for a 0-D input.
    """
    check("glu", input.dim() > 0, "input is 0-D, expected 1-D or more")
    return _glu(input, normalize_dim("glu", dim, input.dim()), contract)


@computes("log_sigmoid_forward")
def _aten_log_sigmoid_forward(input: Tensor) -> tuple[Tensor, Tensor]:
    return logsigmoid(input), input.new_empty(0)


computes("log_sigmoid")(logsigmoid)
