"""Activations without bounds or thresholds: celu, glu, logsigmoid, mish, selu, softsign, tanhshrink."""

from __future__ import annotations

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.dtypes.rounding import is_zero
from repdl.errors import check
from repdl.ops.common import applied, normalize_dim
from repdl.ops.declare import Expression, Slope, f, named, pointwise, public
from repdl.registry import DECLARATIONS, CaseSpec, Declaration, as_float, composite, computes, functions as _ops
from repdl.registry.declaration import item

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


pointwise(
    "celu(Tensor input, float alpha) -> Tensor",
    Slope(
        "g if x > 0, else `g * exp(x / alpha)`",
        lambda h, g, x, alpha: _up_to_zero(x, h * g, f.exp(f.minimum(x, 0) / alpha) / alpha),
    ),
    family="activation",
    order="x if x > 0, else `expm1(x / alpha) * alpha`",
    cases=[(1.0,), (0.3,)],
)
pointwise(
    "selu(Tensor input) -> Tensor",
    Slope(
        f"`g * s`, s = 1.0507009873554805 if x > 0, else `exp(x) * {_SELU}`",
        lambda h, g, x: _up_to_zero(x, h * g, f.exp(f.minimum(x, 0)) * _SELU),
    ),
    family="activation",
    order=f"`x * 1.0507009873554805` if x > 0, else `expm1(x) * {_SELU}`",
)
pointwise(
    "logsigmoid(Tensor input) -> Tensor",
    {"input": lambda g, x: g * f.sigmoid(-x)},
    family="activation",
    order="`minimum(x, 0) - log1p(exp(-abs(x)))`",
)
pointwise(
    "mish(Tensor input) -> Tensor",
    Slope("`g * (t + (x * sigmoid(x)) * (1 - t * t))`, t = `tanh(log1p(exp(x)))`", _mish_second),
    family="activation",
    order="`x * tanh(log1p(exp(x)))`",
)
pointwise(
    "softsign(Tensor input) -> Tensor",
    {"input": _softsign_slope},
    family="activation",
    order="`x / (1 + abs(x))`",
)
pointwise(
    "tanhshrink(Tensor input) -> Tensor",
    {"input": lambda g, x: g * f.square(f.tanh(x))},
    family="activation",
    order="`x - tanh(x)`",
)


def _check_glu(input: Tensor, dim: int) -> None:
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
composite(
    "glu",
    "(Tensor input, int dim, str contract) -> Tensor",
    _glu_formula,
    calls=("mul", "sigmoid"),
    check=_check_glu,
    dtypes=Dtypes(),
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
    return applied("celu", lambda x: _ops.celu(x, width), input, inplace)


@public("activation")
def selu(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`scale * elu(input, alpha)` with the constants that keep mean 0 and variance 1, any shape.

    With `inplace`, into `input`.
    """
    return applied("selu", _ops.selu, input, inplace)


@public("activation")
def mish(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`input * tanh(softplus(input))`, any shape. With `inplace`, into `input`."""
    return applied("mish", _ops.mish, input, inplace)


@public("activation")
def logsigmoid(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`log(sigmoid(input))` without its underflow, any shape."""
    return _ops.logsigmoid(input)


@public("activation")
def softsign(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`input / (1 + |input|)`, any shape and floating-point dtype."""
    return _ops.softsign(input)


@public("activation")
def tanhshrink(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`input - tanh(input)`, any shape."""
    return _ops.tanhshrink(input)


@public("activation")
def glu(input: Tensor, dim: int = -1, *, contract: ContractLike = None) -> Tensor:
    """`a * sigmoid(b)`, a and b the halves of `input` along `dim`: `(..., 2 N, ...) -> (..., N, ...)`.

    Raises:
        ShapeError: if `dim` does not exist or its size is odd, or for a 0-D input.
    """
    check("glu", input.dim() > 0, "input is 0-D, expected 1-D or more")
    return _ops.glu(input, normalize_dim("glu", dim, input.dim()), contract)


@computes("log_sigmoid_forward")
def _aten_log_sigmoid_forward(input: Tensor) -> tuple[Tensor, Tensor]:
    return logsigmoid(input), input.new_empty(0)


computes("log_sigmoid")(logsigmoid)
