// Functions of doubles as distributions.md writes them out: each operation rounded once, in this order. They are
// within some units of 2**-53 of the functions that they are named after; that, not correct rounding, is promised.
#pragma once

#include <cmath>

#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/logarithm.hpp"

namespace repdl::random {

// log(x), x normal and positive: x = 2**n (1 + f), s = f / (2 + f), log(1 + f) = 2 atanh(s).
REPDL_HD inline double log_double(double x) {
  const exact::Binade b = exact::binade(x);
  const double s = b.f / (2.0 + b.f), z = mul(s, s);
  double p = 2.0 / 25;
  p = fma(p, z, 2.0 / 23);
  p = fma(p, z, 2.0 / 21);
  p = fma(p, z, 2.0 / 19);
  p = fma(p, z, 2.0 / 17);
  p = fma(p, z, 2.0 / 15);
  p = fma(p, z, 2.0 / 13);
  p = fma(p, z, 2.0 / 11);
  p = fma(p, z, 2.0 / 9);
  p = fma(p, z, 2.0 / 7);
  p = fma(p, z, 2.0 / 5);
  p = fma(p, z, 2.0 / 3);
  const double half = mul(mul(0.5, b.f), b.f);
  const double tail = half - mul(s, fma(z, p, half));
  return fma(b.n, 0x1.62e42fefa2p-1, b.f - fma(-b.n, 0x1.9ef35793c7673p-41, tail));
}

struct Direction {
  double cosine, sine;
};

// Of the angle of `turn` 2**-64 turns: that to the nearest quarter, then Taylor's series up to pi / 4.
REPDL_HD inline Direction direction(std::uint64_t turn) {
  const std::uint64_t quarter = (turn + (std::uint64_t{1} << 61)) >> 62;
  const double a = mul(static_cast<double>(static_cast<std::int64_t>(turn << 2)), 0x1.921fb54442d18p-64);
  const double z = mul(a, a);
  double p = 1.0 / 355687428096000;  // (-1)**k / (2 k + 1)!
  p = fma(p, z, -1.0 / 1307674368000);
  p = fma(p, z, 1.0 / 6227020800);
  p = fma(p, z, -1.0 / 39916800);
  p = fma(p, z, 1.0 / 362880);
  p = fma(p, z, -1.0 / 5040);
  p = fma(p, z, 1.0 / 120);
  p = fma(p, z, -1.0 / 6);
  const double sine = fma(mul(a, z), p, a);
  double q = -1.0 / 6402373705728000;  // (-1)**k / (2 k)!
  q = fma(q, z, 1.0 / 20922789888000);
  q = fma(q, z, -1.0 / 87178291200);
  q = fma(q, z, 1.0 / 479001600);
  q = fma(q, z, -1.0 / 3628800);
  q = fma(q, z, 1.0 / 40320);
  q = fma(q, z, -1.0 / 720);
  q = fma(q, z, 1.0 / 24);
  const double cosine = fma(mul(z, z), q, fma(-0.5, z, 1.0));
  const bool swapped = quarter & 1, left = (quarter + 1) & 2, below = quarter & 2;
  const double x = swapped ? sine : cosine, y = swapped ? cosine : sine;
  return {left ? -x : x, below ? -y : y};
}

}  // namespace repdl::random
