"""Powers, with a number or a tensor as the exponent."""

from __future__ import annotations

from math import isfinite

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.dtypes.rounding import difference, is_zero, rounded
from repdl.errors import ArgumentError, check
from repdl.ops.common.arithmetic import mul
from repdl.ops.declare import Expression, f, pointwise, public
from repdl.ops.pointwise.elementwise import Operand, operands
from repdl.registry import FLOAT32_ON_CUDA, as_float, define, functions as _ops
from repdl.tensors import layout

__all__ = ["pow"]


def _rounded(exponent: float, dtype: torch.dtype) -> float:
    """A number as the exponent of elements of `dtype`: of 16-bit floats a float32."""
    return rounded(float(exponent), torch.float64 if dtype is torch.float64 else torch.float32)


def _to_input(g: Tensor, input: Tensor, exponent: float) -> Tensor:
    number = _rounded(exponent, input.dtype)
    if is_zero(number):
        return torch.zeros_like(g)
    power = _ops.pow(input, difference(number, 1.0) if isfinite(number) else number)
    return mul(g, mul(power, number))


define(
    "pow",
    "(Tensor input, float exponent) -> Tensor",
    check=lambda input: None,
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(),
    fake=lambda input: layout.empty_pointwise(input),
    gradients={"input": _to_input},
    # Of infinite exponents it is NaN, as torch's.
    is_slope=lambda input, exponent: isfinite(_rounded(exponent, input.dtype)),
)


def _to_base(g: Expression, base: Expression, exponent: Expression) -> Expression:
    return f.where(exponent == 0, 0, g * (f.pow_tensor(base, exponent - 1) * exponent))


def _to_exponent(g: Expression, base: Expression, exponent: Expression) -> Expression:
    factor = f.pow_tensor(base, exponent) * f.log(base)
    return g * f.where((base == 0) & (exponent >= 0), 0, factor)


pointwise(
    "pow_tensor(Tensor input, Tensor other, str contract) -> Tensor",
    {"input": _to_base, "other": _to_exponent},
    letters={"base": "input", "exponent": "other"},
    family="pow",
    autocast=FLOAT32_ON_CUDA,
)


@public("pow", broadcasts=True)
def pow(input: Operand, exponent: Operand, *, contract: ContractLike = None) -> Tensor:
    """`input` to the power of `exponent`, broadcast, correctly rounded.

    One of both may be a number. It is rounded once to the dtype of the result, a number as
    the exponent of 16-bit floats to float32 as torch does it. Integers to integers are torch's exact powers.

    Raises:
        DTypeError, ArgumentError: if the result is of no dtype, or an operand is neither a tensor nor a real number.
    """
    check(
        "pow",
        isinstance(input, Tensor) or isinstance(exponent, Tensor),
        "no tensor among the operands, expected one at least",
    )
    for what, value in (("input", input), ("exponent", exponent)):
        if isinstance(value, bool):
            raise ArgumentError(f"pow: {what} is bool {value}, expected a tensor or a real number")
        if not isinstance(value, Tensor):
            as_float("pow", what, value)
    pair = operands("pow", input, exponent)
    if pair is None:
        return torch.pow(input, exponent)  # type: ignore[arg-type]
    if isinstance(exponent, Tensor):
        return _ops.pow_tensor(*pair, contract)
    return _ops.pow(pair[0], as_float("pow", "exponent", exponent))
