"""gelu and silu: fixed sequences of float32 operations around the exact functions."""

from __future__ import annotations

import torch

from repdl.contract import Contract, contract_name
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import check, check_bool, check_tensor
from repdl.ops._pointwise import pointwise
from repdl.ops.unary import _add, _mul, _sub

Tensor = torch.Tensor
_ops = torch.ops.repdl
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


_silu = pointwise(
    "silu(Tensor input) -> Tensor",
    {"input": lambda g, input: _silu_backward(g, input)},
    family="activation",
    dtypes=Dtypes(SINGLE),
)
_silu_backward = pointwise(
    "silu_backward(Tensor grad, Tensor input) -> Tensor",
    {
        "grad": lambda g, input: _silu_backward(g, input),
        "input": lambda g, grad, input: _mul(_mul(g, grad), _silu_second(input)),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
)
_gelu = pointwise(
    "gelu(Tensor input, str approximate) -> Tensor",
    {"input": lambda g, input, approximate: _gelu_backward(g, input, approximate)},
    family="activation",
    dtypes=Dtypes(SINGLE),
    check_options=lambda approximate: _check_kind("gelu", approximate),
)
_gelu_backward = pointwise(
    "gelu_backward(Tensor grad, Tensor input, str approximate) -> Tensor",
    {
        "grad": lambda g, input, approximate: _gelu_backward(g, input, approximate),
        "input": lambda g, grad, input, approximate: _mul(_mul(g, grad), _gelu_second(input, approximate)),
    },
    family="activation",
    dtypes=Dtypes(SINGLE),
    same_shape=("grad", "input"),
    check_options=lambda approximate: _check_kind("gelu_backward", approximate),
)


def gelu(input: Tensor, approximate: str = "none", *, contract: Contract | str | None = None) -> Tensor:
    """`input * (1 + erf(input / sqrt(2))) / 2`, any shape; "tanh" approximates it as torch does.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.
        ShapeError: if `approximate` is neither "none" nor "tanh".

    Contract: activation v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html
    """
    contract_name(contract)
    check_tensor("gelu", input=input)
    _check_kind("gelu", approximate)
    return _gelu(input, approximate)


def silu(input: Tensor, inplace: bool = False, *, contract: Contract | str | None = None) -> Tensor:
    """`input * sigmoid(input)`, any shape, two roundings. With `inplace`, into `input`.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16.

    Contract: activation v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.silu.html
    """
    contract_name(contract)
    check_tensor("silu", input=input)
    check_bool("silu", inplace=inplace)
    return input.copy_(_silu(input.clone() if torch.is_grad_enabled() else input)) if inplace else _silu(input)
