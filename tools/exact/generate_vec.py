"""Tables and polynomials of the exact functions of a Vec (`packages/repdl-cpu/native/<name>.hpp`).

    python tools/exact/generate_vec.py exp_vec expm1_vec log_vec sin_vec erf_vec

Tables are as in the headers; the polynomials, near-minimax (Chebyshev) fits in 200 bits, are
rounded to float there.
"""

from __future__ import annotations

import sys

import numpy as np
from mpmath import chebyfit, cos, erf, exp, expm1, log, log1p, mp, mpf, nint, pi, sin, sqrt

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


def expm1_vec() -> None:
    """(exp(r) - 1 - r - r**2 / 2) / (r**3 / 2)."""
    tail = lambda r: 2 * (expm1(r) - r - r**2 / 2) / r**3 if abs(r) > mpf(2) ** -40 else mpf(1) / 3 + r / 12
    show_fit("c", tail, log(2) / 2 / 16 * mpf("1.001"), 3)


def log_vec() -> None:
    """For each base, with 1 / ln(base) = scale (1 + more): scale / c rounded for centres c = 1 +
    (j - 18) 2**-5 (below 1: 2**-6); minus the logarithm of a quotient of that by scale, as a
    multiple of 2**-17 (base 10: 2**-18) and the rest; the logarithm of 2 likewise; and, in powers of h = scale r,
    (log(1 + r) / ln(base) - r / ln(base)) / h**2."""
    log_base("e", exp(mpf(1)), 17)
    log_base("2", mpf(2), 17)
    log_base("10", mpf(10), 18)


def log_base(name: str, base: mpf, bits: int) -> None:
    """The constants of one base, logarithms as a multiple of 2**-bits and the rest."""

    def parts(v: mpf) -> tuple[mpf, mpf]:
        high = nint(v * 2**bits) / 2**bits
        return high, rounded(v - high)

    def tail(h: mpf) -> mpf:
        r = h / scale
        return (log1p(r) - r) / ln / h**2 if abs(h) > mpf(2) ** -60 else -1 / (2 * ln * scale**2)

    ln = log(base)
    scale = rounded(1 / ln)
    centres = np.array([0x3F800000 + (j - 18) * (1 << 18) for j in range(ENTRIES)], np.uint32)
    inverse = [rounded(scale / mpf(float(c))) for c in centres.view(np.float32)]
    logs = [parts(-log(v / scale) / ln) for v in inverse]
    print(f"  base {name}: scale {short(scale)}, more {short(rounded(1 / ln / scale - 1))}")
    print("  logarithm of 2: " + ", ".join(short(part) for part in parts(log(2) / ln)))
    show("inverse", inverse)
    show("high", [high for high, _ in logs])
    show("low", [low for _, low in logs])
    show_fit("q", tail, mpf(2) ** -5.5 * mpf("1.01") * scale, 4)


def sin_vec() -> None:
    """pi / 32 in three parts, sin(j pi / 32) and cos(j pi / 32) with what rounding takes from them,
    and with z = r**2: (sin(r) - r) / r**3 and (cos(r) - 1) / r**2."""
    rest, parts = pi / ENTRIES, []
    for _ in range(3):
        parts.append(rounded(rest))
        rest -= parts[-1]
    print("  pi / 32: " + ", ".join(short(part) for part in parts) + ", 32 / pi: " + short(rounded(ENTRIES / pi)))
    for name, function in {"sine": sin, "cosine": cos}.items():
        values = [function(mpf(j) / ENTRIES * pi) for j in range(ENTRIES)]
        values = [v if abs(v) > mpf(2) ** -100 else mpf(0) for v in values]
        show(name, [rounded(v) for v in values])
        show(f"{name}_low", [rounded(v - rounded(v)) for v in values])
    bound = (pi / 32 * mpf("1.001")) ** 2
    for name, terms, tail in (
        ("sin", 2, lambda z: (sin(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3 if z > mpf(2) ** -60 else -mpf(1) / 6),
        ("cos", 3, lambda z: (cos(sqrt(z)) - 1) / z if z > mpf(2) ** -60 else -mpf(1) / 2),
    ):
        coefficients, error = chebyfit(tail, [0, bound], terms, error=True)
        print(f"  {name}: error 2**{float(log(abs(error), 2)):.1f}, " + ", ".join(float(c).hex() for c in coefficients))


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


TABLES = {"exp_vec": exp_vec, "expm1_vec": expm1_vec, "log_vec": log_vec, "sin_vec": sin_vec, "erf_vec": erf_vec}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(name)
        TABLES[name]()
