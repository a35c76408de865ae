"""Powers, with a number or a tensor as the exponent."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import SINGLE, Dtypes
from repdl.dtypes.rounding import difference, is_zero, rounded
from repdl.errors import ArgumentError, DTypeError, check
from repdl.ops.common import constant
from repdl.ops.common.arithmetic import mul
from repdl.ops.declare import Expression, f, pointwise, public
from repdl.ops.pointwise.elementwise import Operand, operands
from repdl.registry import FLOAT32_ON_CUDA, as_float, define, functions as _ops
from repdl.tensors import layout

__all__ = ["pow"]


def _to_input(g: Tensor, input: Tensor, exponent: float) -> Tensor:
    number = rounded(float(exponent), torch.float32)
    if is_zero(number):
        return torch.zeros_like(g)
    power = _ops.pow(input, difference(number, 1.0) if isfinite(number) else number)
    return mul(g, mul(power, number))


define(
    "pow",
    "(Tensor input, float exponent) -> Tensor",
    check=lambda input: None,
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(SINGLE),
    fake=lambda input: layout.empty_pointwise(input),
    gradients={"input": _to_input},
    # Of infinite exponents it is NaN, as torch's.
    is_slope=lambda input, exponent: isfinite(rounded(float(exponent), torch.float32)),
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
    dtypes=Dtypes(SINGLE),
    autocast=FLOAT32_ON_CUDA,
)


def _half(x: Tensor, contract: str) -> Tensor:
    """x to the power of 0.5: unlike the root it is +0 for -0, and inf for -inf."""
    above = torch.where(x == float("-inf"), constant(float("inf"), x.dtype, x.device), x)
    return _ops.add(_ops.sqrt(above), constant(0.0, x.dtype, x.device), contract)


_IN_DOUBLE: dict[float, Callable[[Tensor, str], Tensor]] = {
    -1.0: lambda x, contract: _ops.reciprocal(x),
    0.0: lambda x, contract: torch.where(torch.ones_like(x, dtype=torch.bool), torch.ones_like(x), x),
    0.5: _half,
    1.0: lambda x, contract: _ops.mul(x, constant(1.0, x.dtype, x.device), contract),
    2.0: lambda x, contract: _ops.mul(x, x, contract),
    3.0: lambda x, contract: _ops.mul(_ops.mul(x, x, contract), x, contract),
}
"""The exponents that float64 has, each a sequence of other ops."""


@public("pow", broadcasts=True)
def pow(input: Operand, exponent: Operand, *, contract: ContractLike = None) -> Tensor:
    """`input` to the power of `exponent`, broadcast, correctly rounded to float32.

    One of both may be a number. It is rounded once to the dtype of the result, a number as
    the exponent to float32 as torch does it. Integers to integers are torch's exact powers.
    float64 has the exponents -1, 0, 0.5, 1, 2 and 3, which are sequences of other ops.

    Raises:
        DTypeError, ArgumentError: if the result is of no dtype or, in float64, the exponent
            none of these, or an operand is neither a tensor nor a real number.
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
    number = as_float("pow", "exponent", exponent)
    if pair[0].dtype is torch.float64:
        if number not in _IN_DOUBLE:
            known = ", ".join(f"{value:g}" for value in _IN_DOUBLE)
            raise DTypeError(
                f"pow: input.dtype is float64 and exponent {number:g}, expected one of the exponents {known}, or an "
                f"input of float32, bfloat16 or float16; convert it first, for example with input.to(torch.float32)"
            )
        return _IN_DOUBLE[number](pair[0], contract)
    return _ops.pow(pair[0], number)
