"""Print the tables of double-doubles (exact/double_double/tables.hpp): python tools/exact/generate_double.py > FILE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import gmpy2
from gmpy2 import mpfr

gmpy2.get_context().precision = 400

HEADER = """\
// Tables of the exact functions of doubles: tools/exact/generate_double.py prints them.
#pragma once

#include "repdl/host_device.hpp"

namespace repdl::exact::double_double {
"""


def cut(x: mpfr, unit: int) -> mpfr:
    """The multiple of 2**unit next to x."""
    return gmpy2.rint(x * mpfr(2) ** -unit) * mpfr(2) ** unit


def pair(x: mpfr) -> tuple[float, float]:
    high = float(x)
    return high, float(x - mpfr(high))


def rows(values: Iterable[float]) -> Iterator[str]:
    line = ""
    for value in values:
        text = value.hex().replace(".0000000000000p", "p").replace("0x0p+0", "0.0") + ", "
        if len(line) + len(text) > 114:
            yield line.rstrip()
            line = ""
        line += text
    yield line.rstrip()


def table(name: str, values: list[float], text: str) -> str:
    body = "\n".join(f"      {row}" for row in rows(values))
    return f"""
// {text}
REPDL_HD_INLINE const double* {name}() {{
  static constexpr double entry[{len(values)}] = {{
{body}
  }};
  return entry;
}}"""


def constants(name: str, values: list[float], text: str) -> str:
    return f"\nconstexpr double {name}[] = {{{', '.join(v.hex() for v in values)}}};  // {text}"


def parts(x: mpfr, *units: int) -> list[float]:
    """x as the sum of multiples of 2**unit, and of a double."""
    found = []
    for unit in units:
        found.append(float(cut(x, unit)))
        x -= mpfr(found[-1])
    return [*found, float(x)]


def main() -> None:
    pi, ln_2 = gmpy2.const_pi(), gmpy2.log(mpfr(2))
    print(HEADER, end="")
    print(constants("ln_2_128", parts(ln_2 / 128, -42, -77), "ln 2 / 128"))
    print(constants("ln_2_pair", list(pair(ln_2)), "ln 2"))
    print(constants("ln_2_of_log", parts(ln_2, -42), "ln 2, a multiple of 2**-42 and the rest"))
    print(constants("over_ln_2", list(pair(1 / ln_2)), "1 / ln 2"))
    print(constants("over_ln_10", list(pair(1 / gmpy2.log(mpfr(10)))), "1 / ln 10"))
    print(constants("pi_256", parts(pi / 256, -31, -57, -83), "pi / 256"))
    print(constants("half_pi", list(pair(pi / 2)), "pi / 2"))
    powers = [pair(gmpy2.exp2(mpfr(j) / 128)) for j in range(128)]
    print(table("exp_table_hi", [high for high, _ in powers], "2**(j / 128)"))
    print(table("exp_table_lo", [low for _, low in powers], "What is left of it."))

    # Entry j is for the mantissas m of [0.703125, 1.40625) with 512 (m - 0.703125 2**i) ... in the leading bits.
    inverse, log_hi, log_lo = [], [], []
    for j in range(512):
        bits = 0x3FE6800000000000 + (j << 43)
        if bits >= 0x3FF0000000000000 + (0x6800000000000):
            raise AssertionError(j)
        from_bits = lambda b: gmpy2.mpfr(__import__("struct").unpack("<d", __import__("struct").pack("<Q", b))[0])
        low, high = from_bits(bits), from_bits(bits + (1 << 43))
        near_one = low <= 1 <= high
        c = mpfr(1) if near_one else cut(2 / (low + high), -14)
        value = -gmpy2.log(c)
        first = cut(value, -42)
        inverse.append(float(c))
        log_hi.append(float(first))
        log_lo.append(float(value - first))
    print(
        table("log_inverse", inverse, "c next to 1 / m, of 15 bits, for m of 512 intervals from 0.703125 to 1.40625.")
    )
    print(table("log_table_hi", log_hi, "-log(c), a multiple of 2**-42"))
    print(table("log_table_lo", log_lo, "What is left of it."))

    sines = [pair(gmpy2.sin(pi * j / 256)) if j % 256 else (0.0, 0.0) for j in range(512)]
    print(table("sin_table_hi", [high for high, _ in sines], "sin(j pi / 256)"))
    print(table("sin_table_lo", [low for _, low in sines], "What is left of it."))

    angles = [pair(gmpy2.atan(mpfr(j) / 128)) for j in range(129)]
    print(table("atan_table_hi", [high for high, _ in angles], "atan(j / 128)"))
    print(table("atan_table_lo", [low for _, low in angles], "What is left of it."))

    places = [mpfr(j) / 64 for j in range(64 * 6 + 1)]
    values = [pair(gmpy2.erf(x)) for x in places]
    slopes = [pair(2 / gmpy2.sqrt(pi) * gmpy2.exp(-x * x)) for x in places]
    print(table("erf_table_hi", [high for high, _ in values], "erf(j / 64)"))
    print(table("erf_table_lo", [low for _, low in values], "What is left of it."))
    print(table("erf_slope_hi", [high for high, _ in slopes], "2 / sqrt(pi) exp(-(j / 64)**2)"))
    print(table("erf_slope_lo", [low for _, low in slopes], "What is left of it."))
    print("\n}  // namespace repdl::exact::double_double")


if __name__ == "__main__":
    main()
