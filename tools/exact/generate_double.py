"""Write the tables of double-doubles (exact/double_double/*_tables.hpp): python tools/exact/generate_double.py."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import gmpy2
from gmpy2 import mpfr

gmpy2.get_context().precision = 400

FOLDER = (
    Path(__file__).resolve().parents[2] / "packages/repdl-core/src/repdl_contract/include/repdl/exact/double_double"
)
FRAME = """\
// Tables of double-doubles for {name} and its kin: tools/exact/generate_double.py writes them.
#pragma once

#include "repdl/host_device.hpp"

// clang-format off
namespace repdl::exact::double_double {{
{body}
}}  // namespace repdl::exact::double_double
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
    yield line.rstrip(", ")


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
    """name_0 and so on: device code takes scalars of the host, and of an array only what an initializer has."""
    return f"\nconstexpr double {', '.join(f'{name}_{i} = {v.hex()}' for i, v in enumerate(values))};  // {text}"


def parts(x: mpfr, *units: int) -> list[float]:
    """x as the sum of multiples of 2**unit, and of a double."""
    found = []
    for unit in units:
        found.append(float(cut(x, unit)))
        x -= mpfr(found[-1])
    return [*found, float(x)]


def from_bits(bits: int) -> mpfr:
    return mpfr(struct.unpack("<d", struct.pack("<Q", bits))[0])


def pairs(name: str, values: list[mpfr], text: str, high: str = "hi", low: str = "lo") -> list[str]:
    """Two tables of those numbers, what is left of each after the double next to it in the second one."""
    both = [pair(value) for value in values]
    first = table(f"{name}_{high}", [a for a, _ in both], text)
    return [first, table(f"{name}_{low}", [b for _, b in both], "What is left of it.")]


def scalars(name: str, x: mpfr, text: str) -> str:
    high, low = pair(x)
    return f"\nconstexpr double {name}_hi = {high.hex()}, {name}_lo = {low.hex()};  // {text}"


def exp_tables() -> list[str]:
    ln_2 = gmpy2.log(mpfr(2))
    return [
        constants("ln_2_256", parts(ln_2 / 256, -43, -76), "ln 2 / 256"),
        constants("ln_2_pair", list(pair(ln_2)), "ln 2"),
        *pairs("exp_table", [gmpy2.exp2(mpfr(j) / 256) for j in range(256)], "2**(j / 256)"),
    ]


def log_tables() -> list[str]:
    inverse, log_hi, log_lo = [], [], []
    for j in range(512):
        bits = 0x3FE6800000000000 + (j << 43)
        low, high = from_bits(bits), from_bits(bits + (1 << 43))
        c = mpfr(1) if low <= 1 <= high else cut(2 / (low + high), -14)
        first = cut(-gmpy2.log(c), -42)
        inverse.append(float(c))
        log_hi.append(float(first))
        log_lo.append(float(-gmpy2.log(c) - first))
    return [
        constants("ln_2_of_log", parts(gmpy2.log(mpfr(2)), -42), "ln 2, a multiple of 2**-42 and the rest"),
        constants("over_ln_2", list(pair(1 / gmpy2.log(mpfr(2)))), "1 / ln 2"),
        constants("over_ln_10", list(pair(1 / gmpy2.log(mpfr(10)))), "1 / ln 10"),
        table("log_inverse", inverse, "c next to 1 / m, of 15 bits, for m of 512 intervals from 0.703125 to 1.40625."),
        table("log_table_hi", log_hi, "-log(c), a multiple of 2**-42"),
        table("log_table_lo", log_lo, "What is left of it."),
    ]


def sin_tables() -> list[str]:
    sines = [gmpy2.sin(gmpy2.const_pi() * j / 256) if j % 256 else mpfr(0) for j in range(512)]
    return [
        constants("pi_256_near", parts(gmpy2.const_pi() / 256, -39, -72), "pi / 256, for arguments below 2**12"),
        constants("pi_256", parts(gmpy2.const_pi() / 256, -31, -57, -83), "pi / 256"),
        *pairs("sin_table", sines, "sin(j pi / 256)"),
    ]


def atan_tables() -> list[str]:
    return [
        scalars("half_pi", gmpy2.const_pi() / 2, "pi / 2"),
        *pairs("atan_table", [gmpy2.atan(mpfr(j) / 128) for j in range(129)], "atan(j / 128)"),
    ]


ERF_POINTS = [mpfr(j) / 64 for j in range(64 * 6 + 1)]


def erf_tables() -> list[str]:
    factor = 2 / gmpy2.sqrt(gmpy2.const_pi())
    return [
        *pairs("erf_table", [gmpy2.erf(x) for x in ERF_POINTS], "erf(j / 64)"),
        *pairs("erf_slope", [factor * gmpy2.exp(-x * x) for x in ERF_POINTS], "2 / sqrt(pi) exp(-(j / 64)**2)"),
    ]


def erfc_tables() -> list[str]:
    return pairs("erfc_table", [gmpy2.erfc(x) for x in ERF_POINTS], "erfc(j / 64)")


def main() -> None:
    for make in (exp_tables, log_tables, sin_tables, atan_tables, erf_tables, erfc_tables):
        name = make.__name__.removesuffix("_tables")
        body = "\n".join(make()) + "\n"
        (FOLDER / f"{name}_tables.hpp").write_text(FRAME.format(name=name, body=body))


if __name__ == "__main__":
    main()
