"""Reference of `contract/v1/pow.md`."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import torch

from repdl.reference.arithmetic import rounded, to_numpy, to_torch
from repdl.reference.exact import NAN, correctly_rounded, dyadic


def _exact_power(x: Decimal, e: Decimal) -> Decimal | None:
    """x ** e, x positive, where it is an integer of at most 108 bits times a power of two: midpoints are."""
    numerator, denominator = x.as_integer_ratio()  # one of them is a power of two
    shift = (numerator & -numerator).bit_length() - 1
    odd, exponent = numerator >> shift, shift - (denominator.bit_length() - 1)
    times, roots = e.as_integer_ratio()
    while roots > 1:
        root = math.isqrt(odd)
        if root * root != odd or exponent % 2:
            return None
        odd, exponent, roots = root, exponent // 2, roots // 2
    if odd == 1:
        return dyadic(1, exponent * times)
    if times > 0 and odd.bit_length() * times <= 108:
        return dyadic(odd**times, exponent * times)
    return None


def _power(x: Decimal, e: Decimal) -> Decimal:
    """x ** e"""
    if e == 0 or x == 1:
        return Decimal(1)
    if x.is_nan() or e.is_nan():
        return NAN
    integer = e.is_finite() and e == e.to_integral_value()
    odd = integer and int(e) % 2 == 1
    size = x.copy_abs()
    if size == 1 and (e.is_infinite() or integer):
        result = Decimal(1)
    elif size == 0 or size.is_infinite() or e.is_infinite():
        result = Decimal("inf") if (size > 1) == (e > 0) else Decimal(0)
    elif x < 0 and not integer:
        return NAN
    else:
        result = _exact_power(size, e) or (e * size.ln()).exp()
    return result.copy_negate() if odd and x.is_signed() else result


power = correctly_rounded(_power, operands=2)
"""x ** e, correctly rounded; arrays of one dtype."""


def _pow(input: torch.Tensor, exponent: float) -> torch.Tensor:
    x = to_numpy(input)
    with np.errstate(all="ignore"):
        return to_torch(power(x, rounded(exponent, x)))


def _pow_tensor(input: torch.Tensor, other: torch.Tensor, contract: str) -> torch.Tensor:
    return to_torch(power(to_numpy(input), to_numpy(other)))


OPS = {"pow": _pow, "pow_tensor": _pow_tensor}
