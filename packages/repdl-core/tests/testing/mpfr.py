"""Correctly rounded results from MPFR, by gmpy2: what headers, kernels and the reference are compared with."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable

import gmpy2
import numpy as np

from repdl.reference.arithmetic import CANONICAL_NAN_64, Array

PRECISE = gmpy2.context(precision=340)
ROUNDING = {
    np.dtype(np.float32): gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True),
    np.dtype(np.float64): gmpy2.ieee(64),
}
"""MPFR rounds once, subnormal results included."""


NORMAL = statistics.NormalDist(0, math.sqrt(0.5))
"""Its distribution function is (1 + erf(x)) / 2."""


def _erfinv(x: gmpy2.mpfr) -> gmpy2.mpfr:
    """Halley's method from a double: each step has three times as many digits."""
    if gmpy2.is_nan(x) or abs(x) >= 1 or x == 0:
        return x if x == 0 else gmpy2.nan() if abs(x) != 1 else gmpy2.copy_sign(gmpy2.inf(), x)
    size, slope = abs(x), 2 / gmpy2.sqrt(gmpy2.const_pi())
    y = size / slope if size < 0.001 else gmpy2.mpfr(-NORMAL.inv_cdf(float(1 - size) / 2))
    for _ in range(20):
        step = (gmpy2.erf(y) - size) / (slope * gmpy2.exp(-y * y))
        step /= 1 + y * step
        y -= step
        if abs(step) <= y * gmpy2.exp2(-60):
            return gmpy2.copy_sign(y, x)
    raise ArithmeticError(f"erfinv({x}) did not converge")


COMPOSED: dict[str, Callable[..., gmpy2.mpfr]] = {
    "erfinv": _erfinv,
    "rsqrt": lambda x: 1 / gmpy2.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
}
"""What MPFR has not: to 340 bits or nearly so, then rounded."""


def correct(name: str, *operands: Array) -> Array:
    """The exact results, rounded once to the dtype of the operands, float32 or float64; arrays of one shape."""
    dtype = operands[0].dtype
    with np.errstate(invalid="ignore"):  # a signalling NaN
        rows = zip(*[x.astype(np.float64).reshape(-1).tolist() for x in operands])
    if name in COMPOSED:
        with PRECISE:
            results = [COMPOSED[name](*map(gmpy2.mpfr, row)) for row in rows]
        with ROUNDING[dtype] as context:
            values = [float(gmpy2.mpfr(result, context.precision)) for result in results]
    else:
        function = operator.pow if name == "pow" else getattr(gmpy2, name)
        with ROUNDING[dtype]:
            values = [float(function(*map(gmpy2.mpfr, row))) for row in rows]
    rounded = np.array(values, dtype=np.float64)
    rounded[np.isnan(rounded)] = CANONICAL_NAN_64
    with np.errstate(over="ignore", under="ignore"):
        return rounded.astype(dtype).reshape(operands[0].shape)
