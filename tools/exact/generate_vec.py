"""Tables and polynomials of the exact functions by pairs of floats (`repdl/exact/pairs/`).

`exp_vec` are those of `exp.hpp`, and so on.

    python tools/exact/generate_vec.py exp_vec log_vec sin_vec erf_vec erf_avx2 tanh_vec

Tables are as in the headers; the polynomials, near-minimax (Chebyshev) fits in 200 bits, are
rounded to float there.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
from mpmath import chebyfit, cos, erf, exp, log, log1p, mp, mpf, nint, pi, polyval, sin, sqrt, taylor

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
    # A little less than that, with the rest d_j near 2**-13.4; t_j and t_j ln(2), which exp2 takes, chosen for
    # small errors of floats.
    lower, slope, rest = [], [], []
    for j in range(ENTRIES):
        middle = rounded(mpf(2) ** (mpf(j) / ENTRIES) * exp(-mpf(1.5) / 2**14))
        error = lambda v: abs(v - rounded(v))
        cost = lambda v, j=j: error(v * log(2)) / 2**6 + error(mpf(j) / ENTRIES * log(2) - log(v))
        lower.append(min((middle + mpf(i) / 2**23 for i in range(-400, 401)), key=cost))
        slope.append(rounded(lower[-1] * log(2)))
        rest.append(rounded(mpf(j) / ENTRIES * log(2) - log(lower[-1])))
    print(f"  lower: errors up to 2**{float(log(max(cost(v, j) for j, v in enumerate(lower)), 2)):.1f}")
    show("lower", lower)
    show("lower_slope", slope)
    show("lower_rest", rest)
    tail = lambda r: (exp(r) - 1 - r) / r**2 if abs(r) > mpf(2) ** -60 else mpf(1) / 2 + r / 6
    for entries in (32, 16):
        show_fit(f"q of {entries} entries", tail, log(2) / 2 / entries * mpf("1.001"), 3)


def log_vec() -> None:
    """For 32 and for 16 parts of [1, 2), with 2**-6 or 2**-5 = u: multiples of u near 1 / m for the m of each
    part (1 for the first, 1 / 2 for the last); for each base minus their logarithms, as a multiple of 2**-17
    (base 2: 2**-16, base 10: 2**-18) and the rest; the logarithm of 2 likewise; 1 / ln(base) as two floats; and
    in powers of r, times 1 / ln(base), (log(1 + r) - r) / r**2, or (log(1 + r) - r + r**2 / 2) / r**3."""
    for entries, bits, terms in ((32, 6, 4), (16, 5, 5)):
        unit, edges = mpf(2) ** -bits, [mpf(1) + mpf(j) / entries for j in range(entries + 1)]
        inverse, worst = [mpf(1)], mpf(1) / entries
        for low, high in pairwise(edges[1:-1]):
            size = lambda v, low=low, high=high: max(abs(low * v - 1), abs(high * v - 1))
            inverse.append(min((mpf(i) * unit for i in range(2 ** (bits - 1), 2**bits + 1)), key=size))
            worst = max(worst, size(inverse[-1]))
        inverse.append(mpf(1) / 2)
        least = max(abs(low * v - 1) for low, v in zip(edges[1:-1], inverse[1:], strict=True))
        print(f"{entries} entries, r from {-float(least)} to {float(worst)}")
        show("inverse", inverse)
        tail = lambda r: (log1p(r) - r) / r**2 if abs(r) > mpf(2) ** -60 else -mpf(1) / 2
        for name, base, places in (("e", exp(mpf(1)), 17), ("2", mpf(2), 16), ("10", mpf(10), 18)):
            print(f"  base {name}")
            scale = 1 / log(base)
            parts = [
                (nint(v * 2**places) / 2**places, v) for v in [log(2) * scale, *(-log(v) * scale for v in inverse)]
            ]
            parts = [(high, rounded(v - high)) for high, v in parts]
            print("  logarithm of 2: " + ", ".join(short(part) for part in parts[0]))
            print(f"  1 / ln(base): {short(rounded(scale))}, {short(rounded(scale - rounded(scale)))}")
            show("high", [high for high, _ in parts[1:]])
            show("low", [low for _, low in parts[1:]])
            coefficients, error = chebyfit(tail, [-least, worst], terms, error=True)
            print(f"  q: error {short(abs(error) * scale)} r**2")
            print("  " + ", ".join(short(rounded(c * scale)) for c in coefficients))
        tail = lambda r: (log1p(r) - r + r**2 / 2) / r**3 if abs(r) > mpf(2) ** -40 else mpf(1) / 3
        coefficients, error = chebyfit(tail, [-least, worst], terms, error=True)
        print(f"  c: error {short(abs(error))} r**3")
        print("  " + ", ".join(short(rounded(c)) for c in coefficients))


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


ERF_SCALE, ERF_MOST = np.float32(0.91), 3.925


def erf_word(upper: float, lower: float) -> tuple[float, float]:
    """A float whose last 16 bits are the first ones of another, as near as it gets to `upper`, and that other one."""
    bits = lambda x: int(np.float32(x).view(np.uint32))
    low, high = (bits(lower) + 0x8000) >> 16, bits(upper) >> 16
    word = min(
        (np.uint32(h << 16 | low).view(np.float32) for h in (high - 1, high, high + 1)),
        key=lambda v: abs(float(v) - upper),
    )
    return float(word), float(np.uint32(low << 16).view(np.float32))


def relative_fit(powers: list[int], values: np.ndarray, r: np.ndarray, y: np.ndarray) -> list[float]:
    """The coefficients of these powers of r that make values with the least errors relative to y."""
    far = abs(r).max()
    matrix = np.stack([(r / far) ** k / y for k in powers], 1)
    solution = np.linalg.lstsq(matrix, values / y, rcond=None)[0]
    return [float(v) / far**k for v, k in zip(solution, powers, strict=True)]


def erf_avx2() -> None:
    """For eight intervals of z, those on which three bits of ERF_SCALE z + 1 are one number, up to ERF_MOST: a
    centre c of which two coefficients of erf(c + r) are nearly floats, and the coefficients up to r**9; c1 has what
    rounding takes from it, c8 carries c9 in its last bits."""
    edges = [k / 4 / float(ERF_SCALE) for k in range(4)] + [(1 + k / 2) / float(ERF_SCALE) for k in range(4)]
    names = ["centre", "c0", "c1", "c1_low", "c2", "c3", "c4", "c5", "c6", "c7", "c8"]
    table = {name: [mpf(0)] * 8 for name in names}
    for j, (low, high) in enumerate(pairwise([*edges, ERF_MOST])):
        nodes = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(120) + 0.5) / 120)
        nodes = np.maximum(nodes, 1e-4)
        y = np.array([float(erf(mpf(z))) for z in nodes])
        c: dict[str, mpf] = dict.fromkeys(names, mpf(0))
        if low == 0:
            powers, known = [3, 5, 7, 9], [mpf(0)]
        else:
            middle, powers = mpf(low + high) / 2, list(range(3, 10))
            fit = chebyfit(lambda x, m=middle: erf(m + x), [low - middle, high - middle], 10)
            half, reach = (low + high) / 2, 0.06 * (high - low)
            ends = np.asarray([half - reach, min(half + reach, 2 * low)], np.float32)
            centres = np.arange(*ends.view(np.int32), dtype=np.int32).view(np.float32)
            far = np.maximum(high - centres.astype(float), centres.astype(float) - low)
            exact = [np.longdouble(float(v)) + np.longdouble(float(v - mpf(float(v)))) for v in fit[::-1]]
            d = centres.astype(np.longdouble) - np.longdouble(float(middle))
            d -= np.longdouble(float(middle - mpf(float(middle))))
            error = lambda terms, d=d: np.polyval(terms[::-1], d) - np.polyval(terms[::-1], d).astype(np.float32)
            cost = abs(error(exact)) + abs(error([k * (k - 1) / 2 * v for k, v in enumerate(exact)][2:])) * far**2
            at = mpf(float(centres[np.argmin(cost)]))
            true = taylor(lambda x, m=middle, fit=fit: polyval(fit, x - m), at, 2)
            c |= {"centre": at, "c0": rounded(true[0]), "c1": rounded(true[1]), "c2": rounded(true[2])}
            c["c1_low"] = true[1] - c["c1"]
            known = [c["c0"], true[1], c["c2"]]
        r = nodes - float(c["centre"])
        exactly = lambda z, c=c, known=known: (
            erf(mpf(z)) - sum(v * (mpf(z) - c["centre"]) ** k for k, v in enumerate(known))
        )
        left = np.array([float(exactly(z)) for z in nodes])
        # The odd one of the first interval has its slope last; of the others c0, c1 and c2 are known.
        wanted = [1, *powers] if low == 0 else powers
        last = dict(zip(wanted, relative_fit(wanted, left, r, y), strict=True))
        c8, c9 = erf_word(last.get(8, 1e-30), last[9])
        c["c8"] = mpf(c8)
        left = left - c9 * r**9 - (c8 * r**8 if low else 0)
        for k in powers:
            if k < 8:
                rest = [m for m in powers if k <= m < 8]
                value = relative_fit([1, *rest], left, r, y)[1] if low == 0 else relative_fit(rest, left, r, y)[0]
                c[f"c{k}"] = rounded(value)
                left = left - float(c[f"c{k}"]) * r**k
        if low == 0:
            slope = relative_fit([1], left, r, y)[0]
            c["c1"] = rounded(slope)
            c["c1_low"] = slope - float(c["c1"])
            left = left - slope * r
        print(f"  {low:.4f} to {high:.4f}: error of the fit 2**{np.log2(abs(left / y).max()):.1f}", file=sys.stderr)
        for name in names:
            table[name][(j + 4) % 8] = rounded(c[name])
    for name in names:
        show(name, table[name])


TANH_SHIFT, TANH_LEAST, TANH_MOST = 171 / 256, 2.0**-13, 9.1


def tanh_terms(c: np.ndarray, largest: np.ndarray) -> list[np.ndarray]:
    """Coefficients of tanh(c + t) in powers of t up to the seventh; what the polynomials T_7 and T_8 of
    Chebyshev make of the seventh and eighth for |t| <= largest is in the first three."""
    a = [np.tanh(c), 1 / np.cosh(c) ** 2]
    for k in range(1, 8):
        a.append(-sum(a[i] * a[k - i] for i in range(k + 1)) / (k + 1))
    a[0] = a[0] - a[8] * largest**8 / 128
    a[1] = a[1] + a[7] * largest**6 * 7 / 64
    a[2] = a[2] + a[8] * largest**6 / 4
    return a[:8]


def tanh_sum(c: list[np.float32], z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """s and rest of tanh_vec.hpp at z, all float32; c[0] is the centre, c[1:] the coefficients."""
    fma = lambda a, b, addend: (a.astype(float) * b + addend).astype(np.float32)
    t = z - c[0]
    q = fma(fma(fma(np.full_like(t, c[7]), t, c[6]), t, c[5]), t, c[4])
    slope = fma(np.full_like(t, c[3]), t, c[2])
    slope_rest = fma(np.full_like(t, c[3]), t, -(slope - c[2]).astype(float))
    s = fma(slope, t, c[1])
    rest = fma(fma(q * t, t, slope_rest), t, fma(slope, t, -(s - c[1]).astype(float)))
    return s, rest


def tanh_vec() -> None:
    """For 32 intervals of |x|, those on which the leading bits of |x| + TANH_SHIFT are one number: a centre c of
    which three coefficients of tanh(c + t) are nearly floats, the coefficients, in powers of t, made smaller by
    a bias, so that s + rest is never more than tanh, and by how much it may be less, relative to s."""
    single = lambda x: np.asarray(x, np.float32)
    first = int(single(TANH_SHIFT).view(np.int32)) >> 20
    edges = single((np.arange(first, first + 33) << 20).astype(np.int32).view(np.float32) - TANH_SHIFT)
    table = np.zeros((9, ENTRIES), np.float32)
    for j, (low, high) in enumerate(pairwise(np.clip(edges.astype(float), 0, TANH_MOST))):
        # t and s - c[1] are exact where the centre is at most twice the lower edge.
        middle, reach = (low + high) / 2, (high - low) / 4
        ends = single([min(middle - reach, 1.4 * low), min(middle + reach, 2 * low)])
        centres = np.arange(*ends.view(np.int32), dtype=np.int32).view(np.float32).astype(float)
        if low == 0:
            centres = np.zeros(1)
        largest = np.maximum(high - centres, centres - low)
        terms = tanh_terms(centres, largest)
        z = np.arange(*single([max(low, TANH_LEAST), high]).view(np.int32), dtype=np.int32)
        z = z[:: len(z) >> 20 or 1].view(np.float32)
        best = np.inf
        for bias in 2.0**-36 * 1.04 ** np.arange(-128 if low > 4 else -43, 53):
            if bias > 2 * best:
                break
            values = [term * (1 - bias) for term in terms[:3]] if low else [np.zeros(1), np.ones(1), np.zeros(1)]
            errors = [abs(single(v) - v) * largest**k for k, v in enumerate(values)]
            at = np.argmin(sum(errors) + abs(terms[7]) * largest**7 / 64)
            c = [np.float32(centres[at]), *(np.float32(v[at]) for v in values)]
            nodes = np.maximum((low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(200) + 0.5) / 200), 1e-6)
            t, y = nodes - c[0], np.tanh(nodes)
            wanted = y * (1 - bias) if low else y - 2.0**14 * bias * y**3
            for power in range(3, 7):
                left = (wanted - sum(float(v) * t**k for k, v in enumerate(c[1:]))) / y
                powers = np.stack([(t / largest[at]) ** k / y for k in range(power, 7)], 1)
                c.append(np.float32(np.linalg.lstsq(powers, left, rcond=None)[0][0] / largest[at] ** power))
            for some in (z[:: len(z) >> 12], z):
                s, rest = tanh_sum(c, some)
                true = np.tanh(some.astype(float))
                error = (s.astype(float) - true + rest) / true
                if error.max() > (2.0**-50 if low == 0 else -0.02 * bias):
                    break
            else:
                margin = 1.02 * (-error.min() + (abs(rest) * 2.0**-24 / true).max())
                if margin < best:
                    best, table[:, first + j & 31] = margin, [*c, margin]
        print(f"  {low} to {high}: 2**{np.log2(best):.1f}", file=sys.stderr)
    for name, row in zip(["centre", *(f"c{i}" for i in range(7)), "margin"], table, strict=True):
        show(name, [mpf(float(v)) for v in row])


TABLES = {
    "exp_vec": exp_vec,
    "log_vec": log_vec,
    "sin_vec": sin_vec,
    "erf_vec": erf_vec,
    "erf_avx2": erf_avx2,
    "tanh_vec": tanh_vec,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(name)
        TABLES[name]()
