"""gelu and silu: fixed sequences of float32 operations around the exact functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl import layout, registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import check, check_bool, check_tensor
from repdl.ops.elementwise import check_like
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


_silu: Callable[..., Tensor] = registry.define(
    "silu",
    "(Tensor input) -> Tensor",
    family="activation",
    check=lambda input: None,
    dtypes=Dtypes(SINGLE),
    fake=layout.empty_pointwise,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    backward=lambda ctx, grad: _silu_backward(grad, *ctx.saved_tensors),
)


def _silu_twice(ctx: Any, grad: Tensor) -> Any:
    g, x = ctx.saved_tensors
    return _silu_backward(grad, x), _mul(_mul(grad, g), _silu_second(x))


_silu_backward: Callable[..., Tensor] = registry.define(
    "silu_backward",
    "(Tensor grad, Tensor input) -> Tensor",
    family="activation",
    check=lambda grad, input: check_like("silu_backward", grad, input=input),
    dtypes=Dtypes(SINGLE),
    fake=layout.empty_pointwise,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    backward=_silu_twice,
)


def _check_gelu_backward(grad: Tensor, input: Tensor, approximate: str) -> None:
    check_like("gelu_backward", grad, input=input)
    _check_kind("gelu_backward", approximate)


def _save_kind(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.approximate = inputs
    ctx.save_for_backward(*tensors)


def _gelu_twice(ctx: Any, grad: Tensor) -> Any:
    g, x = ctx.saved_tensors
    second = _gelu_second(x, ctx.approximate)
    return _gelu_backward(grad, x, ctx.approximate), _mul(_mul(grad, g), second), None


_gelu: Callable[..., Tensor] = registry.define(
    "gelu",
    "(Tensor input, str approximate) -> Tensor",
    family="activation",
    check=lambda input, approximate: _check_kind("gelu", approximate),
    dtypes=Dtypes(SINGLE),
    fake=lambda input, approximate: layout.empty_pointwise(input),
    setup_context=_save_kind,
    backward=lambda ctx, grad: (_gelu_backward(grad, *ctx.saved_tensors, ctx.approximate), None),
)
_gelu_backward: Callable[..., Tensor] = registry.define(
    "gelu_backward",
    "(Tensor grad, Tensor input, str approximate) -> Tensor",
    family="activation",
    check=_check_gelu_backward,
    dtypes=Dtypes(SINGLE),
    fake=lambda grad, input, approximate: layout.empty_pointwise(grad, input),
    setup_context=_save_kind,
    backward=_gelu_twice,
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
