"""Tables and polynomials of the exact functions of a Vec (`packages/repdl-cpu/native/<name>.hpp`).

    python tools/exact/generate_vec.py exp_vec log_vec erf_vec

Tables are as in the headers; the polynomials, near-minimax (Chebyshev) fits in 200 bits, are
rounded to float there.
"""

from __future__ import annotations

import sys

import numpy as np
from mpmath import chebyfit, erf, exp, log, mp, mpf, nint, pi, sqrt

mp.prec = 200
ENTRIES = 32


def rounded(x: mpf) -> mpf:
    """`x` rounded to float32 (by way of double, which is harmless for tables)."""
    return mpf(float(np.float32(float(x))))


def short(x: mpf) -> str:
    """A hex float literal without zeros at its end."""
    mantissa, exponent = float(x).hex().split("p")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + f"p{exponent}f"


def show(name: str, values: list[mpf]) -> None:
    """A table of hex floats."""
    print(f"  static constexpr Table {name}({{")
    for i in range(0, len(values), 5):
        end = "," if i + 5 < len(values) else "});"
        print("      " + ", ".join(short(v) for v in values[i : i + 5]) + end)


def show_fit(name: str, tail: object, bound: mpf, terms: int) -> None:
    """The polynomial for `tail` on [-bound, bound], times r**2 an addend of the function."""
    coefficients, error = chebyfit(tail, [-bound, bound], terms, error=True)
    print(f"  {name}: error of r**2 times the fit 2**{float(log(abs(error) * bound**2, 2)):.1f}")
    print("  " + ", ".join(float(c).hex() for c in coefficients))


def exp_vec() -> None:
    """t_j = 2**(j / 32) rounded, d_j = j ln(2) / 32 - log(t_j), and (exp(r) - 1 - r) / r**2."""
    t = [rounded(mpf(2) ** (mpf(j) / ENTRIES)) for j in range(ENTRIES)]
    show("t_table", t)
    show("d_table", [rounded(mpf(j) / ENTRIES * log(2) - log(t[j])) for j in range(ENTRIES)])
    tail = lambda r: (exp(r) - 1 - r) / r**2 if abs(r) > mpf(2) ** -60 else mpf(1) / 2 + r / 6
    show_fit("q", tail, log(2) / 2 / 16 * mpf("1.001"), 3)


def log_vec() -> None:
    """1 / c rounded for centres c = 1 + (j - 18) 2**-5 (below 1: 2**-6), -log of that as a
    multiple of 2**-17 and the rest, and (log(1 + r) - r) / r**2."""
    centres = np.array([0x3F800000 + (j - 18) * (1 << 18) for j in range(ENTRIES)], np.uint32)
    inverse = [rounded(1 / mpf(float(c))) for c in centres.view(np.float32)]
    high = [nint(-log(v) * 2**17) / 2**17 for v in inverse]
    show("inverse_table", inverse)
    show("high_table", high)
    show("low_table", [rounded(-log(v) - h) for v, h in zip(inverse, high)])
    tail = lambda r: (log(1 + r) - r) / r**2 if abs(r) > mpf(2) ** -60 else -mpf(1) / 2 + r / 3
    show_fit("q", tail, mpf(2) ** -5.5 * mpf("1.01"), 4)


def erf_vec() -> None:
    """Polynomials of degree 8 for erf(j / 8 + r), |r| <= 1/8, odd for j = 0; their first three
    coefficients with what rounding takes from them."""
    odd = chebyfit(lambda u: erf(sqrt(u)) / sqrt(u) if u > 0 else 2 / sqrt(pi), [0, mpf(1) / 64], 4)
    fits = [[mpf(0)] + [c for term in odd for c in (term, mpf(0))]]
    near = lambda a: chebyfit(lambda r: erf(a + r), [-mpf(1) / 8, mpf(1) / 8], 9)
    fits += [near(mpf(j) / 8) for j in range(1, ENTRIES)]
    for i in range(9):
        values = [fit[-1 - i] for fit in fits]
        show(f"c{i}", [rounded(v) for v in values])
        if i < 3:
            show(f"c{i}_low", [rounded(v - rounded(v)) for v in values])


TABLES = {"exp_vec": exp_vec, "log_vec": log_vec, "erf_vec": erf_vec}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(name)
        TABLES[name]()
