"""Elementwise functions of one tensor: one registered op each, one row each below.

A derivative is an expression (`repdl.ops.declare.expression`) of g, the gradient of the output, x, the input, and y,
the output. It is the text of the derivative, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.ops.common import floating
from repdl.ops.declare import LN_2, Expression, Number, Term, f, named, pointwise, public
from repdl.registry import FLOAT32_ON_CUDA, CaseSpec, Lists, computes, functions as _ops
from repdl.tensors.overlap import check_apart

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "neg",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]

_LN_10 = Number(2.302585092994046, "ln 10")
_ERF_SLOPE, _ERFC_SLOPE = Number(1.1283791670955126, "2 / sqrt(pi)"), Number(-1.1283791670955126, "-2 / sqrt(pi)")
_ERFINV_SLOPE = Number(0.886226925452758, "sqrt(pi) / 2")


class Unary(Protocol):
    """A public function of one tensor."""

    def __call__(self, input: Tensor, *, contract: ContractLike = None) -> Tensor: ...


def _erfinv_slope(g: Expression, x: Expression) -> Expression:
    y = named("y", f.erfinv(x))  # again, as torch: a program may write into the result
    return g * (f.exp(y * y) * _ERFINV_SLOPE)


def _register(
    name: str,
    derivative: Callable[..., Term],
    *,
    order: str,
    autocast: Lists | None = None,
    **cases: Any,
) -> Callable[..., Any]:
    """Register `name(input)`; `cases` are arguments of `repdl.testing.generated.unary_cases`."""
    return pointwise(
        f"{name}(Tensor input) -> Tensor",
        {"input": derivative},
        family="elementwise",
        autocast=autocast,
        order=order,
        cases=CaseSpec("unary", cases),
    )


def _unary(
    name: str, summary: str, derivative: Callable[..., Term], *, whole: bool = False, page: str = "", **declaration: Any
) -> Unary:
    """The public function `name` over a new op.

    Args:
        whole: it maps integers to integers, exactly, as torch's own function does; others make them floats.
        page: torch's documentation of it.
        declaration: as of `_register`.
    """
    op = _register(name, derivative, **declaration)

    def function(input: Tensor, *, contract: ContractLike = None) -> Tensor:
        if not input.is_floating_point() and not input.is_complex():
            if whole:
                return getattr(torch, name)(input)
            input = floating(input, torch.get_default_dtype())
        return op(input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{summary}, any shape, any floating-point dtype."
    return public("elementwise", page=page or f"generated/torch.{name}")(function)


def _correctly_rounded(
    name: str, summary: str, derivative: Callable[..., Term], *, special: str, value: str = "", **declaration: Any
) -> Unary:
    """A correctly rounded function.

    Args:
        special: the text of special values.
        value: the text of the exact value; by default `name(x)`.
        declaration: as of `_register`.
    """
    order = f"the exact {value or f'{name}(x)'}, rounded to nearest even; {special}"
    return _unary(name, f"{summary}, correctly rounded", derivative, order=order, **declaration)


abs = _unary(
    "abs",
    "Absolute value",
    lambda g, x: g * f.sign(x),
    order="the sign bit cleared",
    whole=True,
)
acos = _correctly_rounded(
    "acos",
    "Arc cosine",
    lambda g, x: -(g * f.rsqrt(1 - x * x)),
    value="angle whose cosine is x",
    special="+0 for 1, NaN beyond ±1",
    autocast=FLOAT32_ON_CUDA,
    hard="328885a3 39826222 3f000000 3f000001 bf000001 3f7fffff bf7fffff bf800000 3f800001 00000001",
    scale=1.0,
)
acosh = _correctly_rounded(
    "acosh",
    "Inverse hyperbolic cosine",
    lambda g, x: g * f.rsqrt(x * x - 1),
    value="log(x + sqrt(x² - 1))",
    special="+0 for 1, NaN for x < 1, inf for inf",
    hard="4bdd65a5 655890d3 6eb1a8ec 3f800000 3f800001 3f7fffff 7f7fffff 40000000",
    magnitudes=500,
)
asin = _correctly_rounded(
    "asin",
    "Arc sine",
    lambda g, x: g * f.rsqrt(1 - x * x),
    value="angle whose sine is x",
    special="a zero is kept; NaN beyond ±1",
    autocast=FLOAT32_ON_CUDA,
    hard="3f000000 3f000001 bf000001 3f7fffff bf7fffff bf800000 3f800001 00000001 807fffff",
    scale=1.0,
)
asinh = _correctly_rounded(
    "asinh",
    "Inverse hyperbolic sine",
    lambda g, x: g * f.rsqrt(x * x + 1),
    value="log(x + sqrt(x² + 1))",
    special="a zero is kept; ±inf for ±inf",
    hard="4bdd65a5 655890d3 6eb1a8ec cbdd65a5 3f800000 7f7fffff 00000001 807fffff 39800000",
    magnitudes=500,
)
atan = _correctly_rounded(
    "atan",
    "Arc tangent",
    lambda g, x: g / (x * x + 1),
    value="angle whose tangent is x",
    special="a zero is kept; ±pi / 2, rounded, for ±inf",
    hard="3d8d6b23 bd8d6b23 3ed413cd 3ed413ce 401a827a 401a8279 4b800000 7f7fffff 00000001 807fffff",
    magnitudes=500,
)
atanh = _correctly_rounded(
    "atanh",
    "Inverse hyperbolic tangent",
    lambda g, x: g / (1 - x * x),
    value="log((1 + x) / (1 - x)) / 2",
    special="a zero is kept; ±inf for ±1, NaN beyond",
    hard="3f7fffff bf7fffff 3f800001 3f000000 39800000 00000001 807fffff",
    scale=1.0,
)
cos = _correctly_rounded(
    "cos",
    "Cosine",
    lambda g, x: -(g * f.sin(x)),
    special="NaN for the infinities",
    hard="5f18b878 6115cb11 7908cd73 f908cd73 3fc90fdb 40490fdb 49800000 49800001 7f7fffff 00000001 c9800001 5f19af31",
    magnitudes=500,
)
cosh = _correctly_rounded(
    "cosh",
    "Hyperbolic cosine",
    lambda g, x: g * f.sinh(x),
    special="inf for ±inf",
    autocast=FLOAT32_ON_CUDA,
    hard="42b2d4fc 42b2d4fd c2b2d4fd 39800000 39b504f3 00000001 42b40000",
    scale=90.0,
)
erf = _correctly_rounded(
    "erf",
    "Error function",
    lambda g, x: g * (f.exp(-(x * x)) * _ERF_SLOPE),
    special="a zero is kept; ±1 for ±inf",
    hard="407ad446 407ad447 c07ad447 00000001 807fffff 3f800000 39800000",
)
erfc = _correctly_rounded(
    "erfc",
    "`1 - erf(input)`",
    lambda g, x: g * (f.exp(-(x * x)) * _ERFC_SLOPE),
    value="1 - erf(x)",
    special="2 for -inf, +0 for inf",
    hard="b76c9f62 4120ddfb 4120ddfc 41131ce0 c07ad446 33000000 b3800000 00000001 3f800000",
    scale=11.0,
)
erfinv = _correctly_rounded(
    "erfinv",
    "Inverse error function",
    _erfinv_slope,
    value="number whose erf is x",
    special="a zero is kept; ±inf for ±1, NaN beyond",
    autocast=FLOAT32_ON_CUDA,
    hard="3e28c827 be28c827 3f7fffff bf7fffff 3f7f22d5 3f7f22d6 3f800001 00000001 807fffff",
    scale=1.0,
)
exp = _correctly_rounded(
    "exp",
    "e to the power of `input`",
    lambda g, y: g * y,
    special="+0 for -inf, inf for inf",
    autocast=FLOAT32_ON_CUDA,
    hard="42b17217 42b17218 c2cff1b4 c2cff1b5 c2aeac4f c2aeac50 33800000 b3000000 00000001 bc5bdab1",
    scale=128.0,
)
exp2 = _correctly_rounded(
    "exp2",
    "2 to the power of `input`",
    lambda g, y: g * (y * LN_2),
    value="2^x",
    special="+0 for -inf, inf for inf",
    hard="3b429d37 bcf3a937 43000000 42ffffff c3160000 c3160001 c315ffff c2fc0000 c2fc0001",
    scale=160.0,
)
expm1 = _correctly_rounded(
    "expm1",
    "`exp(input) - 1`",
    lambda g, y: g * (y + 1),
    value="exp(x) - 1",
    special="a zero is kept; -1 for -inf, inf for inf",
    autocast=FLOAT32_ON_CUDA,
    hard="42b17217 42b17218 c18aa123 33800000 b3800000 00000001 807fffff beb17218",
    scale=110.0,
)
log = _correctly_rounded(
    "log",
    "Natural logarithm",
    lambda g, x: g / x,
    special="-inf for a zero, NaN for x < 0, inf for inf",
    autocast=FLOAT32_ON_CUDA,
    hard="3c413d3a 41178feb 4c5d65a5 65d890d3 6f31a8ec 00000001 007fffff 7f7fffff 3f7fffff 3f800001",
    magnitudes=1500,
)
log10 = _correctly_rounded(
    "log10",
    "Logarithm to base 10",
    lambda g, x: g / (x * _LN_10),
    special="-inf for a zero, NaN for x < 0, inf for inf",
    autocast=FLOAT32_ON_CUDA,
    hard="0efeee7a 42c80000 501502f9 3f7fffff 3f800001 00000001 7f7fffff",
    magnitudes=500,
)
log1p = _correctly_rounded(
    "log1p",
    "`log(1 + input)`",
    lambda g, x: g / (x + 1),
    value="log(1 + x)",
    special="a zero is kept; -inf for -1, NaN for x < -1, inf for inf",
    autocast=FLOAT32_ON_CUDA,
    hard="b53ffffd 35400003 b70fffe5 3710001b bb0ec8c4 3efd81ad 41078feb 65d890d3 6f31a8ec bf7fffff bf800000 bf800001",
    magnitudes=500,
)
log2 = _correctly_rounded(
    "log2",
    "Logarithm to base 2",
    lambda g, x: g / (x * LN_2),
    special="-inf for a zero, NaN for x < 0, inf for inf",
    autocast=FLOAT32_ON_CUDA,
    hard="3f7fffff 3f800001 00000001 7f7fffff 41000000",
    magnitudes=500,
)
neg = _unary("neg", "`-input`", lambda g: -g, order="the sign bit inverted", whole=True)
reciprocal = _unary(
    "reciprocal",
    "`1 / input`, rounded once",
    lambda g, y: -(g * (y * y)),
    order="`1 / x`",
    autocast=FLOAT32_ON_CUDA,
    subnormal=2.0**-126,
)
rsqrt = _correctly_rounded(
    "rsqrt",
    "`1 / sqrt(input)`",
    lambda g, y: (g * -0.5) * (y * (y * y)),
    value="1 / sqrt(x)",
    special="±inf for ±0, NaN for x < 0, +0 for inf",
    autocast=FLOAT32_ON_CUDA,
    hard="3f7fffff 3f800001 00000001 7f7fffff 41800000",
    magnitudes=500,
)
sigmoid = _correctly_rounded(
    "sigmoid",
    "`1 / (1 + exp(-input))`",
    lambda g, y: f.sigmoid_backward(g, y),
    value="1 / (1 + exp(-x))",
    special="+0 for -inf, 1 for inf",
    hard="ba928601 36180000 b61c0000 370e0000 b69e0000 c2cff1b4 c2cff1b5 c2aeac4f 41851592",
    scale=110.0,
)
sign = _unary(
    "sign",
    "1, 0 or -1; 0 for NaN, as torch",
    lambda g: 0,
    order="1 if x > 0, -1 if x < 0, else +0, for NaN too",
    whole=True,
)
sin = _correctly_rounded(
    "sin",
    "Sine",
    lambda g, x: g * f.cos(x),
    special="a zero is kept; NaN for the infinities",
    hard="46199998 c6199998 3fc90fdb 40490fdb 49800000 49800001 7f7fffff 00000001 c9800001 5f19af31",
    magnitudes=500,
)
sinh = _correctly_rounded(
    "sinh",
    "Hyperbolic sine",
    lambda g, x: g * f.cosh(x),
    special="a zero is kept; ±inf for ±inf",
    autocast=FLOAT32_ON_CUDA,
    hard="3a1285ff ba1285ff 42b2d4fc 42b2d4fd c2b2d4fd 39800000 00000001 807fffff 42b40000",
    scale=90.0,
)
sqrt = _unary(
    "sqrt",
    "Square root, rounded once",
    lambda g, y: g / (y + y),
    order="the IEEE 754 operation",
)
square = _unary(
    "square",
    "`input * input`, rounded once",
    lambda g, x: g * (x + x),
    order="`x * x`",
    whole=True,
    autocast=FLOAT32_ON_CUDA,  # torch's square is a power, which is on its list
    subnormal=2.0**-66,
)
tan = _correctly_rounded(
    "tan",
    "Tangent",
    lambda g, y: g * (1 + y * y),
    special="a zero is kept; NaN for the infinities",
    autocast=FLOAT32_ON_CUDA,
    hard="5ffd33a4 dffd33a4 5d5873ae 7714b423 453c5846 408174dd 3fc90fdb 40490fdb 49800000 49800001 7f7fffff 00000001",
    magnitudes=500,
)
tanh = _correctly_rounded(
    "tanh",
    "Hyperbolic tangent",
    lambda g, y: f.tanh_backward(g, y),
    special="a zero is kept; ±1 for ±inf",
    hard="411102c6 c1102cb4 39800000 b9ffffff 00000001 807fffff 3f800000",
    magnitudes=1500,
)

_register(
    "relu",
    lambda g, y: f.relu_backward(g, y),
    order="+0 if x < 0, else x",
)
pointwise(
    "relu_backward(Tensor grad, Tensor output) -> Tensor",
    {"grad": lambda h, output: f.relu_backward(h, output)},
    family="elementwise",
    same_shape=("output", "grad"),  # as torch
    order="+0 if output <= 0, else grad",
    cases=(),
)


def _sigmoid_second(h: Expression, g: Expression, output: Expression) -> Expression:
    p = named("p", h * g)
    return p * (1 - output) - p * output


def _tanh_second(h: Expression, g: Expression, output: Expression) -> Expression:
    p = named("p", -(h * g) * output)
    return p + p


pointwise(
    "sigmoid_backward(Tensor grad, Tensor output) -> Tensor",
    {"grad": lambda h, output: f.sigmoid_backward(h, output), "output": _sigmoid_second},
    family="elementwise",
    same_shape=("grad", "output"),
    order="`g * ((1 - y) * y)`, y the output",
)
pointwise(
    "tanh_backward(Tensor grad, Tensor output) -> Tensor",
    {"grad": lambda h, output: f.tanh_backward(h, output), "output": _tanh_second},
    family="elementwise",
    same_shape=("grad", "output"),
    order="`g * (1 - y * y)`, y the output",
)
pointwise(
    "root(Tensor input) -> Tensor",
    {"input": lambda g, y: f.root_backward(g, y)},
    family="elementwise",
    order="`sqrt(x) + 0`, which is +0 for both zeros",
)
pointwise(
    "root_backward(Tensor grad, Tensor output) -> Tensor",
    {
        "grad": lambda h, output: f.root_backward(h, output),
        "output": lambda h, g, output: -(h * f.root_backward(f.root_backward(g, output), output)) * 2,
    },
    family="elementwise",
    same_shape=("output", "grad"),
    order="`g / (y + y)`, +0 where the output y is 0",
)


@public("elementwise")
def relu(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`max(input, 0)`, any shape, any floating-point dtype; NaN and -0 stay. With `inplace`, into `input`."""
    if inplace:
        check_apart("relu", input=input)
    if not input.is_floating_point() and not input.is_complex():
        return torch.relu_(input) if inplace else torch.relu(input)
    return input.copy_(_ops.relu(input)) if inplace else _ops.relu(input)


computes("abs")(abs)
computes("square", integers=True)(square)
