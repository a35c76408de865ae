"""Reference of `contract/v1/pow.md`."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

import numpy as np
import torch

from repdl.reference.arithmetic import Array, to_numpy, to_torch
from repdl.reference.exact import WIDE, correctly_rounded


def _positive(x: Decimal, e: Decimal) -> Decimal:
    """x ** e to 190 digits, x positive; what is nearer than 1e-50 to a midpoint is the midpoint."""
    value = WIDE.exp(WIDE.multiply(e, WIDE.ln(x)))
    if value == 0 or not math.isfinite(float(value)):
        return value
    exponent = math.frexp(float(value))[1] - 25 if float(value) else -1074
    quantum = Decimal(math.ldexp(1.0, max(exponent, -150)))
    count = WIDE.divide(value, quantum)
    whole = count.to_integral_value(context=WIDE)
    near = WIDE.subtract(count, whole).copy_abs() < Decimal("1e-50")
    return WIDE.multiply(whole, quantum) if near else value


@lru_cache(maxsize=256)
def power(exponent: float) -> Callable[[Array], Array]:
    """x ** exponent on float32 arrays; the exponent is a float32."""
    e = Decimal(exponent)
    integer = e.is_finite() and e == e.to_integral_value()
    odd = integer and int(e) % 2 == 1

    def of(x: Decimal) -> Decimal:
        if e == 0 or x == 1:
            return Decimal(1)
        if x.is_nan() or e.is_nan():
            return Decimal("nan")
        size = x.copy_abs()
        if size == 1 and (e.is_infinite() or integer):
            result = Decimal(1)
        elif size == 0 or size.is_infinite() or e.is_infinite():
            result = Decimal("inf") if (size > 1) == (e > 0) else Decimal(0)
        elif x < 0 and not integer:
            return Decimal("nan")
        else:
            result = _positive(size, e)
        return result.copy_negate() if odd and x.is_signed() else result

    return correctly_rounded(of)


def _pow(input: torch.Tensor, exponent: float) -> torch.Tensor:
    with np.errstate(all="ignore"):
        rounded = float(np.float64(exponent).astype(np.float32))
    return to_torch(power(rounded)(to_numpy(input)))


def _pow_tensor(input: torch.Tensor, other: torch.Tensor, contract: str) -> torch.Tensor:
    bases, exponents = np.broadcast_arrays(to_numpy(input), to_numpy(other))
    pairs = zip(bases.reshape(-1), exponents.reshape(-1))
    values = [power(float(e))(np.array([x], np.float32)) for x, e in pairs]
    return to_torch(np.concatenate([np.empty(0, np.float32), *values]).reshape(bases.shape))


OPS = {"pow": _pow, "pow_tensor": _pow_tensor}
