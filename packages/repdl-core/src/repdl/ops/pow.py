"""Powers with a number as the exponent."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch

from repdl import layout, registry
from repdl.autocast import FLOAT32_ON_CUDA
from repdl.contract import Contract, contract_name
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import ArgumentError, as_float, check_tensor
from repdl.numbers import difference, is_zero, rounded
from repdl.ops._number import constant

_ops = torch.ops.repdl


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    (input,) = ctx.saved_tensors
    if is_zero(ctx.exponent):
        return torch.zeros_like(grad), None
    power = _pow(input, difference(ctx.exponent, 1.0) if isfinite(ctx.exponent) else ctx.exponent)
    factor = _ops.mul(power, constant(ctx.exponent, input.dtype, input.device), "v1")
    return _ops.mul(grad, factor, "v1"), None


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, exponent = inputs
    ctx.exponent = rounded(float(exponent), torch.float32)
    ctx.save_for_backward(input)


_pow: Callable[..., torch.Tensor] = registry.define(
    "pow",
    "(Tensor input, float exponent) -> Tensor",
    check=lambda input, exponent: None,
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(SINGLE),
    fake=lambda input, exponent: layout.empty_pointwise(input),
    setup_context=_setup_context,
    backward=_backward,
)


def pow(input: torch.Tensor, exponent: float, *, contract: Contract | str | None = None) -> torch.Tensor:
    """`input` to the power of a number, any shape, correctly rounded to float32.

    The exponent is rounded once to float32, as torch does it.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of float32, bfloat16 or float16,
            or `exponent` no real number.

    Contract: pow v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.pow.html
    """
    contract_name(contract)
    check_tensor("pow", input=input)
    if isinstance(exponent, bool):
        raise ArgumentError(f"pow: exponent is bool {exponent}, expected a real number")
    return _pow(input, as_float("pow", "exponent", exponent))
