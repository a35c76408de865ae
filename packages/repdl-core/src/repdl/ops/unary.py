"""Elementwise functions of one tensor: one registered op each, one entry each below.

A derivative maps g, the gradient of the output, to the gradient of the input; `_pointwise`
says what else it may name. Numbers in it are constants, rounded once to the tensor's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from repdl import registry
from repdl.autocast import FLOAT32_ON_CUDA
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL, SINGLE, Dtypes
from repdl.errors import check_bool, check_tensor
from repdl.ops._number import constant, floating
from repdl.ops._pointwise import pointwise
from repdl.replay import replayed

__all__ = [
    "abs",
    "cos",
    "erf",
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
    "sqrt",
    "square",
    "tanh",
]

Tensor = torch.Tensor
_ops = registry.functions
_LN_2, _LN_10, _ERF_SLOPE = 0.6931471805599453, 2.302585092994046, 1.1283791670955126  # 2 / sqrt(pi)


class Unary(Protocol):
    """A public function of one tensor."""

    def __call__(self, input: Tensor, *, contract: Contract | str | None = None) -> Tensor: ...


def _arithmetic(op: str) -> Callable[[Tensor | float, Tensor | float], Tensor]:
    """The registered op of that name on tensors and constants, one tensor at least."""

    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        a, b = (t if isinstance(t, Tensor) else constant(t, like.dtype, like.device) for t in (a, b))
        return getattr(_ops, op)(a, b, "v1")

    return call


_add, _sub, _mul, _div = (_arithmetic(op) for op in ("add", "sub", "mul", "div"))


IEEE = {"abs", "neg", "reciprocal", "relu", "sign", "sqrt", "square"}
"""What float64 has too: the other functions are proven in float32 only."""
AUTOCAST = {"exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "square"}
"""What torch.autocast computes in float32 on CUDA (torch's square is a power, which is on its list)."""
WHOLE = {"abs", "neg", "sign", "square"}
"""What maps integers to integers, exactly, as torch's own functions do; the other functions make them floats."""


def _register(name: str, derivative: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Register `name(input)` with its derivative."""
    return pointwise(
        f"{name}(Tensor input) -> Tensor",
        {"input": derivative},
        family="elementwise",
        dtypes=Dtypes(ALL if name in IEEE else SINGLE),
        autocast=FLOAT32_ON_CUDA if name in AUTOCAST else None,
    )


def _unary(name: str, says: str, derivative: Callable[..., Tensor], page: str = "") -> Unary:
    """The public function `name` over a new op; `page` is torch's documentation of it."""
    op = _register(name, derivative)

    def function(input: Tensor, *, contract: Contract | str | None = None) -> Tensor:
        contract_name(contract)
        check_tensor(name, input=input)
        if not input.is_floating_point() and not input.is_complex():
            if name in WHOLE:
                return getattr(torch, name)(input)  # type: ignore[no-any-return]
            input = floating(input, torch.get_default_dtype())
        return op(input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{says}, any shape, float32{", float64" if name in IEEE else ""} or halves.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of these dtypes.

    Contract: elementwise v1.
    Source: https://docs.pytorch.org/docs/stable/{page or f"generated/torch.{name}"}.html
    """
    return replayed(function)


abs = _unary("abs", "Absolute value", lambda g, input: _mul(g, _ops.sign(input)))
cos = _unary("cos", "Cosine, correctly rounded", lambda g, input: _ops.neg(_mul(g, _ops.sin(input))))
erf = _unary(
    "erf",
    "Error function, correctly rounded",
    lambda g, input: _mul(g, _mul(_ops.exp(_ops.neg(_mul(input, input))), _ERF_SLOPE)),
)
exp = _unary("exp", "e to the power of `input`, correctly rounded", lambda g, y: _mul(g, y))
exp2 = _unary("exp2", "2 to the power of `input`, correctly rounded", lambda g, y: _mul(g, _mul(y, _LN_2)))
expm1 = _unary("expm1", "`exp(input) - 1`, correctly rounded", lambda g, y: _mul(g, _add(y, 1)))
log = _unary("log", "Natural logarithm, correctly rounded", lambda g, input: _div(g, input))
log10 = _unary("log10", "Logarithm to base 10, correctly rounded", lambda g, input: _div(g, _mul(input, _LN_10)))
log1p = _unary("log1p", "`log(1 + input)`, correctly rounded", lambda g, input: _div(g, _add(input, 1)))
log2 = _unary("log2", "Logarithm to base 2, correctly rounded", lambda g, input: _div(g, _mul(input, _LN_2)))
neg = _unary("neg", "`-input`", lambda g: _ops.neg(g))
reciprocal = _unary("reciprocal", "`1 / input`, rounded once", lambda g, y: _ops.neg(_mul(g, _mul(y, y))))
rsqrt = _unary("rsqrt", "`1 / sqrt(input)`, correctly rounded", lambda g, y: _mul(_mul(g, -0.5), _mul(y, _mul(y, y))))
sigmoid = _unary("sigmoid", "`1 / (1 + exp(-input))`, correctly rounded", lambda g, y: _mul(g, _mul(_sub(1, y), y)))
sign = _unary("sign", "1, 0 or -1; 0 for NaN, as torch", lambda g: torch.zeros_like(g))
sin = _unary("sin", "Sine, correctly rounded", lambda g, input: _mul(g, _ops.cos(input)))
sqrt = _unary("sqrt", "Square root, rounded once", lambda g, y: _div(g, _add(y, y)))
square = _unary("square", "`input * input`, rounded once", lambda g, input: _mul(g, _add(input, input)))
tanh = _unary("tanh", "Hyperbolic tangent, correctly rounded", lambda g, y: _mul(g, _sub(1, _mul(y, y))))

_relu: Callable[..., Tensor] = _register("relu", lambda g, y: _relu_backward(g, y))
_relu_backward: Callable[..., Tensor] = pointwise(
    "relu_backward(Tensor grad, Tensor output) -> Tensor",
    {"grad": lambda g, output: _relu_backward(g, output)},
    family="elementwise",
    same_shape=("output", "grad"),  # as torch
)


@replayed
def relu(input: Tensor, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`max(input, 0)`, any shape, any floating-point dtype; NaN and -0 stay. With `inplace`, into `input`.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html
    """
    contract_name(contract)
    check_tensor("relu", input=input)
    check_bool("relu", inplace=inplace)
    if not input.is_floating_point() and not input.is_complex():
        return torch.relu_(input) if inplace else torch.relu(input)
    return input.copy_(_relu(input)) if inplace else _relu(input)
