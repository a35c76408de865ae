"""Pointwise functions that are formulas of others: hypot, logaddexp, logaddexp2, logit, sinc, xlogy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ANY_CONTRACT, ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check
from repdl.ops.common import at_zero, constant, floating, sort_key
from repdl.ops.common.arithmetic import div, mul, sub
from repdl.ops.declare import (
    LN_2,
    PI,
    POINTWISE,
    Expression,
    Written,
    broadcast_shape,
    f,
    guarded,
    named,
    pointwise,
    public,
)
from repdl.ops.pointwise.elementwise import Operand, promoted
from repdl.ops.pointwise.ternary import clamp
from repdl.registry import DECLARATIONS, CaseSpec, Declaration, as_float, composite, functions as _ops
from repdl.registry.declaration import item
from repdl.tensors import layout

__all__ = ["hypot", "logaddexp", "logaddexp2", "logit", "sinc", "xlogy"]


def _scalar(value: float, like: Tensor) -> Tensor:
    return constant(value, like.dtype, like.device)


def _formula(
    schema: str,
    formula: Callable[..., Tensor],
    calls: Sequence[str],
    order: str,
    *,
    derivative: Mapping[str, Callable[..., Any] | Written] | None = None,
    letters: Mapping[str, str] | None = None,
    backward: str = "that of the formula",
    options: Sequence[tuple[Any, ...]] = ((),),
) -> Callable[..., Tensor]:
    """Register a formula of one or two tensors, which broadcast, and its declaration.

    Args:
        derivative, letters: as of `pointwise`, where that of the formula is no number at the ends of the domain.
        backward: what the text says of the derivative of the formula.
    """
    name, _, rest = schema.partition("(")
    listed = [part.split()[-1] for part in rest.partition(")")[0].split(", ")]
    tensors = rest.count("Tensor ")
    cases = CaseSpec("formula", {"tensors": tensors, "option_sets": options})
    if derivative is not None:
        return pointwise(
            schema,
            derivative,
            family="elementwise",
            order=order,
            letters=letters,
            cases=cases,
            formula=formula,
            calls=calls,
        )

    def check_shapes(*args: Any) -> None:
        broadcast_shape(name, **dict(zip(listed[:tensors], args)))

    DECLARATIONS[name] = Declaration(item(f"{name}({', '.join(listed)}) -> output", order, backward), cases)
    POINTWISE.add(name)
    return composite(
        *(name, f"({rest}", formula),
        calls=calls,
        check=check_shapes,
        fake=lambda *args: layout.pointwise(*args[:tensors]).empty(args[0]),
        dtypes=Dtypes(),
        family="elementwise",
    )


def _log_of_sum(log_of: Callable[[Tensor], Tensor], exp: str) -> Callable[[Tensor, Tensor, str], Tensor]:
    def formula(input: Tensor, other: Tensor, contract: str) -> Tensor:
        # maximum and -abs, but for their derivatives where x = y: of one side, so that the second ones are there.
        less, same = sort_key(input) < sort_key(other), (input.detach() == other.detach()) & input.detach().isinf()
        distance = _ops.where(same, _scalar(0.0, input), _ops.sub(input, other, contract), contract)
        part = log_of(getattr(_ops, exp)(_ops.where(less, distance, _ops.neg(distance), contract)))
        either = _ops.where(less, other, input, contract)
        largest = _ops.where(same, _ops.maximum(input, other, contract), either, contract)
        return _ops.add(largest, part, contract)

    return formula


_OF_ONE_SIDE = "that of the formula, in which x is the maximum of equal numbers, and d its own size where it is 0"

_formula(
    "logaddexp(Tensor input, Tensor other, str contract) -> Tensor",
    _log_of_sum(lambda e: _ops.log1p(e), "exp"),
    ("sub", "where", "neg", "exp", "log1p", "maximum", "add"),
    "`maximum(x, y) + log1p(exp(-abs(d)))`, d = `x - y`, +0 where x = y",
    backward=_OF_ONE_SIDE,
)
_formula(
    "logaddexp2(Tensor input, Tensor other, str contract) -> Tensor",
    _log_of_sum(lambda e: div(_ops.log1p(e), LN_2.value), "exp2"),
    ("sub", "where", "neg", "exp2", "log1p", "div", "maximum", "add"),
    "`maximum(x, y) + log1p(exp2(-abs(d))) / ln 2`, d = `x - y`, +0 where x = y",
    backward=_OF_ONE_SIDE,
)


def _xlogy_formula(input: Tensor, other: Tensor, contract: str) -> Tensor:
    zero = (sort_key(input) == 0) & ~other.detach().isnan()
    product = _ops.mul(input, _ops.log(_ops.where(zero, _scalar(1.0, other), other, contract)), contract)
    return _ops.where(zero, _scalar(0.0, other), product, contract)


def _quotient(condition: Expression, quotient: Callable[[Expression], Expression], divisor: Expression) -> Expression:
    """The derivative by a divisor, 0 where that is 0: the condition holds there."""
    return f.where(condition, 0, quotient(guarded(condition, divisor)))


_formula(
    "xlogy(Tensor input, Tensor other, str contract) -> Tensor",
    _xlogy_formula,
    ("where", "log", "mul"),
    "`x * log(y)`; +0 where x = 0 and y is a number",
    derivative={
        "input": lambda g, x, y: f.where((x == 0) & (y <= 0), 0, f.xlogy(g, y)),
        "other": lambda g, x, y: _quotient((x == 0) & (y == 0), lambda y: (g * x) / y, y),
    },
    letters={"y": "other"},
)


def _logit_formula(input: Tensor, eps: float | None) -> Tensor:
    one = _scalar(1.0, input)
    if eps is not None:
        low = _scalar(eps, input)
        input = clamp(input, low, sub(one, low))
    return _ops.log(div(input, sub(one, input)))


def _logit_slope(g: Tensor, input: Tensor, eps: float | None) -> Tensor:
    one = _scalar(1.0, input)
    low = _scalar(eps or 0.0, input)
    beyond = (sort_key(input) < sort_key(low)) | (sort_key(input) > sort_key(sub(one, low)))
    slope = div(g, mul(input, sub(one, input)))
    end = _scalar(math.nan if eps is None else 0.0, input)
    return _ops.where(beyond & ~input.detach().isnan(), end, slope, ANY_CONTRACT)


_formula(
    "logit(Tensor input, float? eps) -> Tensor",
    _logit_formula,
    ("where", "sign", "sub", "div", "log"),
    "`log(z / (1 - z))`, z = x, with eps `clamp(x, eps, 1 - eps)` with tensors as bounds",
    derivative={
        "input": Written(
            _logit_slope, "`g / (x * (1 - x))`; NaN where x < 0 or x > 1, with eps +0 where x < eps or x > 1 - eps"
        )
    },
    options=((None,), (0.1,)),
)


def _hypot_formula(input: Tensor, other: Tensor, contract: str) -> Tensor:
    x, y = input.detach(), other.detach()
    largest, least = _ops.maximum(x, y, contract), _ops.minimum(x, y, contract)  # of both, so that they lie as both say
    largest = _ops.maximum(largest, _ops.neg(least), contract)  # its size
    usual = (sort_key(largest) != 0) & ~largest.isinf()
    scale = _ops.where(usual, largest, _scalar(1.0, largest), contract)
    a, b = (_ops.square(_ops.div(t, scale, contract)) for t in (input, other))
    return _ops.mul(_ops.root(_ops.add(a, b, contract)), scale, contract)


_formula(
    "hypot(Tensor input, Tensor other, str contract) -> Tensor",
    _hypot_formula,
    ("maximum", "minimum", "neg", "where", "div", "square", "add", "root", "mul"),
    "h = `sqrt(square(x / s) + square(y / s)) * s`, s = `maximum(abs(x), abs(y))`, 1 where that is 0 or infinite",
    derivative={
        "input": lambda g, x, h: _quotient(h == 0, lambda h: g * (x / h), h),
        "other": lambda g, y, h: _quotient(h == 0, lambda h: g * (y / h), h),
    },
    letters={"y": "other", "h": "y"},
)


def _sinc_formula(input: Tensor) -> Tensor:
    angle = mul(input, math.pi)
    return at_zero(angle, 1.0, lambda p: div(_ops.sin(p), p), ANY_CONTRACT)


def _sinc_slope(g: Expression, x: Expression) -> Expression:
    y = named("y", f.sinc(x))  # again, as torch: a program may write into the result
    p = named("p", x * PI)
    return _quotient(p == 0, lambda x: g * ((f.cos(p) - y) / x), x)


_formula(
    "sinc(Tensor input) -> Tensor",
    _sinc_formula,
    ("mul", "sin", "div", "where"),
    "`sin(p) / p`, p = `x * pi`; 1 where p = 0",
    derivative={"input": _sinc_slope},
)


def _of_two(op: str, function: Callable[..., Tensor], input: Operand, other: Operand, contract: str) -> Tensor:
    check(op, isinstance(input, Tensor) or isinstance(other, Tensor), "no tensor among the operands, expected one")
    pair = promoted(op, divides=True, input=input, other=other)
    assert pair is not None
    return function(*pair, contract)


def _of_one(op: str, input: Tensor) -> Tensor:
    if not input.is_floating_point() and not input.is_complex():
        return floating(input, torch.get_default_dtype())
    return input


@public("elementwise", broadcasts=True)
def logaddexp(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`log(exp(input) + exp(other))` without overflow, broadcast, any floating-point dtype.

    `maximum(x, y) + log1p(exp(-abs(x - y)))`; equal infinities are their own.
    """
    return _of_two("logaddexp", _ops.logaddexp, input, other, contract)


@public("elementwise", broadcasts=True)
def logaddexp2(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`log2(exp2(input) + exp2(other))` without overflow, broadcast, any floating-point dtype.

    `maximum(x, y) + log1p(exp2(-abs(x - y))) / ln 2`; equal infinities are their own.
    """
    return _of_two("logaddexp2", _ops.logaddexp2, input, other, contract)


@public("elementwise", page="special", broadcasts=True)
def xlogy(input: Operand, other: Operand, *, contract: ContractLike = None) -> Tensor:
    """`input * log(other)`, broadcast, any floating-point dtype; 0 where `input` is 0 and `other` no NaN.

    One of both may be a number; integers become floating-point.
    """
    return _of_two("xlogy", _ops.xlogy, input, other, contract)


@public("elementwise", broadcasts=True)
def hypot(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`sqrt(input**2 + other**2)` without overflow, broadcast, any floating-point dtype.

    `sqrt(square(x / s) + square(y / s)) * s`, s the larger size of both. Its derivative at 0 is 0.
    """
    return _of_two("hypot", _ops.hypot, input, other, contract)


@public("elementwise", page="special")
def logit(input: Tensor, eps: float | None = None, *, contract: ContractLike = None) -> Tensor:
    """`log(z / (1 - z))`, any shape, any floating-point dtype; z is `input`, with `eps` at least that and at
    most 1 - eps, which is rounded once.

    Raises:
        DTypeError, ArgumentError: if `input` is no tensor of these dtypes, or `eps` no number.
    """
    x = _of_one("logit", input)
    low = None if eps is None else as_float("logit", "eps", eps)
    return _ops.logit(x, None if low is None or low < 0 else low)


@public("elementwise", page="special")
def sinc(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`sin(pi * input) / (pi * input)`, 1 at 0, any shape, any floating-point dtype."""
    return _ops.sinc(_of_one("sinc", input))
