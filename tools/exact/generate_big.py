"""Write the constants of big floats, `repdl/exact/big/constants.hpp`: python tools/exact/generate_big.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gmpy2
from gmpy2 import mpfr

gmpy2.get_context().precision = 2000

FILE = (
    Path(__file__).resolve().parents[2] / "packages/repdl-core/src/repdl_contract/include/repdl/exact/big/constants.hpp"
)
LIMBS, WORDS = 12, 42
HEAD = """\
// Constants of BigFloats, truncated: tools/exact/generate_big.py writes them.
#pragma once

#include "repdl/exact/big/big_float.hpp"

namespace repdl::exact::big {

constexpr int constant_limbs = 12;

// The leading limbs of a constant, the lowest first.
template <int N>
REPDL_HD inline BigFloat<N> leading(const std::uint32_t (&limb)[constant_limbs], int exponent) {
  static_assert(N <= constant_limbs);
  BigFloat<N> x;
  for (int i = 0; i < N; ++i) x.limb[i] = limb[constant_limbs - N + i];
  x.exponent = exponent;
  return x;
}
"""
CONSTANT = """
template <int N>
REPDL_HD inline BigFloat<N> {name}() {{  // {text}
  constexpr std::uint32_t limb[constant_limbs] = {{
{rows}
  }};
  return leading<N>(limb, {exponent});
}}
"""
TAIL = """
// The bits of 2 / pi behind the point, the highest first: what 8 limbs of the largest double need.
REPDL_HD inline std::uint32_t two_over_pi(int word) {{
  constexpr std::uint32_t words[{count}] = {{
{rows}
  }};
  return word < 0 || word >= {count} ? 0u : words[word];
}}

}}  // namespace repdl::exact::big
"""


def rows(words: Sequence[int], each: int) -> str:
    lines = (words[i : i + each] for i in range(0, len(words), each))
    return "\n".join("      " + ", ".join(f"0x{word:08x}u" for word in line) + "," for line in lines)


def words_of(x: mpfr, count: int) -> list[int]:
    """The bits of x in [0, 1) behind the point, the lowest word first."""
    bits = int(gmpy2.floor(x * mpfr(2) ** (32 * count)))
    return [bits >> 32 * i & 0xFFFFFFFF for i in range(count)]


def constant(name: str, x: mpfr, text: str) -> str:
    exponent = int(gmpy2.floor(gmpy2.log2(x))) + 1
    limbs = words_of(x / mpfr(2) ** exponent, LIMBS)
    return CONSTANT.format(name=name, text=text, rows=rows(limbs, 6), exponent=exponent)


def main() -> None:
    pi = gmpy2.const_pi()
    constants = (
        ("ln_2", gmpy2.const_log2(), "ln 2"),
        ("ln_10", gmpy2.log(mpfr(10)), "ln 10"),
        ("half_pi", pi / 2, "pi / 2"),
        ("two_over_root_pi", 2 / gmpy2.sqrt(pi), "2 / sqrt(pi)"),
    )
    last = TAIL.format(count=WORDS, rows=rows(words_of(2 / pi, WORDS)[::-1], 7))
    FILE.write_text(HEAD + "".join(constant(*c) for c in constants) + last)


if __name__ == "__main__":
    main()
