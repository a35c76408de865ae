"""Polynomials of the exact functions: near-minimax (Chebyshev) fits in 200 bits.

    python tools/exact/generate.py exp log

Prints the coefficients from the highest degree down as hex floats, as they stand in
`repdl/exact/<function>.hpp`, and the base-2 logarithm of the error of the fit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from mpmath import asin, atan, atanh, chebyfit, erf, erfc, erfinv, exp, expm1, log, mp, mpf, pi, sin, sqrt

mp.prec = 200


def exp_tail(r: mpf) -> mpf:
    """(exp(r) - 1 - r) / r**2"""
    return (exp(r) - 1 - r) / r**2 if abs(r) > mpf(2) ** -60 else mpf(1) / 2 + r / 6


def log_tail(z: mpf) -> mpf:
    """With z = s**2: 2 (atanh(s) - s) / s, the R of log(1 + f) = f - (f**2/2 - s (f**2/2 + R))."""
    s = sqrt(abs(z))
    return 2 * (atanh(s) - s) / s / z if s > mpf(2) ** -30 else mpf(2) / 3 + 2 * z / 5


def exp2_tail(r: mpf) -> mpf:
    """(2**r - 1) / r"""
    return (mpf(2) ** r - 1) / r if abs(r) > mpf(2) ** -60 else log(2)


def sin_tail(z: mpf) -> mpf:
    """With z = r**2: (sin(r) - r) / r**3"""
    r = sqrt(abs(z))
    return (sin(r) - r) / r**3 if r > mpf(2) ** -40 else -mpf(1) / 6


ERF_CENTRE = mpf("7.703125")


def erf_ratio(w: mpf) -> mpf:
    """With x = sqrt(w + centre): erf(x) / x"""
    x = sqrt(abs(w + ERF_CENTRE))
    return erf(x) / x if x > mpf(2) ** -50 else 2 / sqrt(pi)


def atan_tail(z: mpf) -> mpf:
    """With z = t**2: (atan(t) - t) / t**3"""
    t = sqrt(abs(z))
    return (atan(t) - t) / t**3 if t > mpf(2) ** -40 else -mpf(1) / 3


def asin_tail(z: mpf) -> mpf:
    """With z = s**2: (asin(s) - s) / s**3"""
    s = sqrt(abs(z))
    return (asin(s) - s) / s**3 if s > mpf(2) ** -40 else mpf(1) / 6


def erfc_scaled(t: mpf) -> mpf:
    """With x = 4 (1 + t) / (1 - t): exp(x**2) erfc(x)"""
    x = max(mpf(0), 4 * (1 + t) / (1 - t))
    return exp(x * x) * erfc(x)


def erfinv_ratio(w: mpf) -> mpf:
    """With x = sqrt(1 - exp(-w)): erfinv(x) / x"""
    x = sqrt(-expm1(-abs(w)))
    return erfinv(x) / x if abs(w) > mpf(2) ** -60 else sqrt(pi) / 2


def erfinv_ratio_far(v: mpf) -> mpf:
    """With w = (v + 4.125)**2, x = sqrt(1 - exp(-w)): erfinv(x) / x, by Newton's method for erfc."""
    w = (v + mpf("4.125")) ** 2
    x = sqrt(1 - exp(-w))
    rest = exp(-w) / (1 + x)  # 1 - x
    y = sqrt(w - log(w) / 2)
    for _ in range(12):
        r = (erfc(y) - rest) * exp(y * y) * sqrt(pi) / 2
        y += r / (1 - y * r)
    return y / x


FITS: dict[str, tuple[Callable[[mpf], mpf], mpf, mpf, int]] = {
    "exp": (exp_tail, -log(2) / 2 * mpf("1.0001"), log(2) / 2 * mpf("1.0001"), 11),
    "log": (log_tail, mpf(0), (3 - 2 * sqrt(mpf(2))) ** 2 * mpf("1.0001"), 8),
    "exp2": (exp2_tail, -mpf("0.5"), mpf("0.5"), 11),
    "pow": (exp2_tail, -mpf("0.5"), mpf("0.5"), 10),
    "sin": (sin_tail, mpf(0), (pi / 2) ** 2 * mpf("1.0001"), 8),
    "erf": (erf_ratio, -ERF_CENTRE, ERF_CENTRE, 29),
    "atan": (atan_tail, mpf(0), (sqrt(mpf(2)) - 1) ** 2 * mpf("1.0001"), 12),
    "asin": (asin_tail, mpf(0), mpf("0.25001"), 14),
    "erfc": (erfc_scaled, -mpf(1), mpf("6.1") / mpf("14.1"), 23),
    "erfinv": (erfinv_ratio, mpf(0), mpf("5.001"), 24),
    "erfinv_far": (lambda v: erfinv_ratio((v + mpf("3.125")) ** 2), mpf("-0.889"), mpf("0.8685"), 24),
    "erfinv_start": (erfinv_ratio, mpf(0), mpf("5.001"), 15),
    "erfinv_start_far": (erfinv_ratio_far, mpf("-1.8895"), mpf("1.89"), 15),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FITS:
        function, low, high, terms = FITS[name]
        coefficients, error = chebyfit(function, [low, high], terms, error=True)
        print(f"{name}: error of the fit 2**{float(log(abs(error), 2)):.1f}")
        for c in coefficients:
            print(f"  {float(c).hex()}")
