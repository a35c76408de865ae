"""What is left of a division: fmod, remainder; and its whole part, floor_divide."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check
from repdl.ops.common import constant, narrowed, sort_key, sum_to, widened
from repdl.ops.declare import Call, Formula, Written, pointwise, public
from repdl.ops.pointwise.elementwise import Operand, div, promoted
from repdl.registry import CaseSpec, functions as _ops
from repdl.tensors import layout

__all__ = ["floor_divide", "fmod", "remainder"]


def _rest(x: Tensor, y: Tensor, contract: str) -> Tensor:
    """What is left of |x| after whole multiples of 2^96 |y|, then of 2^48 |y|, then of |y|; in float64."""
    rest, size = (_ops.abs(narrowed(t, torch.float64)) for t in torch.broadcast_tensors(x, y))
    nan, most = (constant(v, size.dtype, size.device) for v in (float("nan"), 2.0**53))
    for factor in (2.0**96, 2.0**48, 1.0):
        step = _ops.mul(size, constant(factor, size.dtype, size.device), contract)
        times = _ops.div_floor(rest, step, contract)
        # fma(-times, step, rest), exact as long as times is; not where times is 0, and step perhaps infinite
        pair = torch.stack([step, rest])
        left = _ops.linear_scan(torch.stack([step, _ops.neg(times)]), pair, 0)[1]
        rest = torch.where(sort_key(times) == 0, rest, torch.where(sort_key(times) > sort_key(most), nan, left))
    return narrowed(rest, x.dtype)


def _fmod_formula(input: Tensor, other: Tensor, contract: str) -> Tensor:
    rest = _rest(input, other, contract)
    negative = torch.signbit(input)
    found = torch.where(negative, _ops.neg(rest), rest)
    return torch.where(found.isnan(), constant(float("nan"), found.dtype, found.device), found)


def _remainder_formula(input: Tensor, other: Tensor, contract: str) -> Tensor:
    rest = _fmod_formula(input, other, contract)
    behind = _ops.sign(rest) * _ops.sign(other) < 0
    return _ops.where(behind, _ops.add(rest, other, contract), rest, contract)


def _to_other(quotient: str) -> Written:
    """`-(g * quotient)`, summed over what broadcasts before 16-bit floats are rounded."""
    slope = Formula(lambda g, x, y: -(g * Call(quotient, x, y)), {})

    def to_other(g: Tensor, input: Tensor, other: Tensor, contract: str) -> Tensor:
        storage, (x, y, wide) = widened(input, other, g)
        product = slope({"g": wide, "x": x, "y": y, "contract": contract})
        return narrowed(sum_to(product, y.shape, contract), storage)

    return Written(to_other, slope.text)


def _placed(formula: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The formula, with its output where those of pointwise ops lie."""

    def run(input: Tensor, other: Tensor, contract: str) -> Tensor:
        found, output = formula(input, other, contract), layout.pointwise(input, other).empty(input)
        return found if output.stride() == found.stride() else output.copy_(found)

    return run


_CALLS = ("abs", "mul", "div_floor", "neg", "linear_scan", "where", "add", "sign", "cast")

pointwise(
    "fmod(Tensor input, Tensor other, str contract) -> Tensor",
    {"input": Written(lambda g: g, "g"), "other": _to_other("div_trunc")},
    family="elementwise",
    order="in float64, r = `abs(x)`, and for s = `f * abs(y)`, f = 2^96, 2^48 and 1: q = `div_floor(r, s)`, r becomes "
    "`fma(-q, s, r)`, but for q = 0, NaN for q above 2^53; r, rounded to the dtype, with the sign of x: exact",
    cases=CaseSpec("formula", {"tensors": 2, "option_sets": ((),)}),
    formula=_placed(_fmod_formula),
    calls=_CALLS,
)
pointwise(
    "remainder(Tensor input, Tensor other, str contract) -> Tensor",
    {"input": Written(lambda g: g, "g"), "other": _to_other("div_floor")},
    family="elementwise",
    order="r = `fmod(x, y)`, `r + y` where one of r and y is above 0 and the other below",
    cases=CaseSpec("formula", {"tensors": 2, "option_sets": ((),)}),
    formula=_placed(_remainder_formula),
    calls=_CALLS,
)


def _of_two(op: str, function: Callable[..., Tensor], input: Operand, other: Operand, contract: str) -> Tensor:
    check(op, isinstance(input, Tensor) or isinstance(other, Tensor), "no tensor among the operands, expected one")
    pair = promoted(op, input=input, other=other)
    return getattr(torch, op)(input, other) if pair is None else function(*pair, contract)


@public("elementwise", broadcasts=True)
def fmod(input: Tensor, other: Operand, *, contract: ContractLike = None) -> Tensor:
    """What `input` has more than whole multiples of `other`, with the sign of `input`; broadcast, any dtype.

    Exact; NaN where `other` is 0, and where `input` has more than 2^149 multiples. Integers are torch's.
    """
    return _of_two("fmod", _ops.fmod, input, other, contract)


@public("elementwise", broadcasts=True)
def remainder(input: Operand, other: Operand, *, contract: ContractLike = None) -> Tensor:
    """`fmod` with the sign of `other`, as Python's `%`: `other` is added where the signs differ, which rounds once.

    Broadcast, any dtype; integers are torch's.
    """
    return _of_two("remainder", _ops.remainder, input, other, contract)


@public("elementwise", broadcasts=True)
def floor_divide(input: Operand, other: Operand, *, contract: ContractLike = None) -> Tensor:
    """`div(input, other, rounding_mode="floor")`, as Python's `//`."""
    return div(input, other, rounding_mode="floor", contract=contract)
