"""Polynomials of the exact functions: near-minimax (Chebyshev) fits in 200 bits.

    python tools/exact/generate.py exp log

Prints the coefficients from the highest degree down as hex floats, as they stand in
`repdl/exact/<function>.hpp`, and the base-2 logarithm of the error of the fit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from mpmath import atanh, chebyfit, exp, log, mp, mpf, sqrt

mp.prec = 200


def exp_tail(r: mpf) -> mpf:
    """(exp(r) - 1 - r) / r**2"""
    return (exp(r) - 1 - r) / r**2 if abs(r) > mpf(2) ** -60 else mpf(1) / 2 + r / 6


def log_tail(z: mpf) -> mpf:
    """With z = s**2: 2 (atanh(s) - s) / s, the R of log(1 + f) = f - (f**2/2 - s (f**2/2 + R))."""
    s = sqrt(abs(z))
    return 2 * (atanh(s) - s) / s / z if s > mpf(2) ** -30 else mpf(2) / 3 + 2 * z / 5


FITS: dict[str, tuple[Callable[[mpf], mpf], mpf, mpf, int]] = {
    "exp": (exp_tail, -log(2) / 2 * mpf("1.0001"), log(2) / 2 * mpf("1.0001"), 11),
    "log": (log_tail, mpf(0), (3 - 2 * sqrt(mpf(2))) ** 2 * mpf("1.0001"), 8),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FITS:
        function, low, high, terms = FITS[name]
        coefficients, error = chebyfit(function, [low, high], terms, error=True)
        print(f"{name}: error of the fit 2**{float(log(abs(error), 2)):.1f}")
        for c in coefficients:
            print(f"  {float(c).hex()}")
