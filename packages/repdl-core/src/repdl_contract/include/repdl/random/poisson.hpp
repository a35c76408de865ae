// Poisson numbers (distributions.md): counted arrivals up to a rate of 30, above it transformed rejection with a
// squeeze (Hoermann, "The transformed rejection method for generating Poisson random variables", Insurance:
// Mathematics and Economics 12(1), 1993). All in double, for every dtype.
#pragma once

#include <cmath>

#include "repdl/random/double_functions.hpp"
#include "repdl/random/position.hpp"

namespace repdl::random {

// In (0, 1), exactly.
REPDL_HD inline double inside(std::uint32_t word) { return mul(static_cast<double>(word) + 0.5, 0x1p-32); }

// How many exponential numbers, one after the other, stay within `rate`; 0 for a rate of NaN.
REPDL_HD inline double arrivals(const Position& at, std::uint64_t n, double rate) {
  double sum = 0, count = 0;
  for (int plane = second_attempt; plane < spawn_plane; ++plane) {
    sum = sum - log_double(inside(at.word(n, plane)));
    if (!(sum <= rate)) break;
    count += 1;
  }
  return count;
}

// log(k!) - k log(k) + k, by Stirling's series.
REPDL_HD inline double stirling(double k) {
  const double square = mul(k, k);
  const double series = (1.0 / 12 - (1.0 / 360 - (1.0 / 1260) / square) / square) / k;
  return mul(0.5, log_double(k)) + (0x1.d67f1c864beb5p-1 + series);  // log(2 pi) / 2
}

REPDL_HD inline double transformed(const Position& at, std::uint64_t n, double rate) {
  const double b = 0.931 + mul(2.53, std::sqrt(rate)), a = mul(0.02483, b) - 0.059;
  const double inverse = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2.0);
  double k = 0;
  for (int plane = second_attempt; plane < spawn_plane - 1; plane += 2) {
    const double u = inside(at.word(n, plane)) - 0.5, v = inside(at.word(n, plane + 1));
    const double s = 0.5 - std::fabs(u);
    k = std::floor(mul(mul(2.0, a) / s + b, u) + rate + 0.43);
    if (s >= 0.07 && v <= inner) break;
    if (k < 1.0 || (s < 0.013 && v > s)) continue;
    const double density = mul(k, log_double(rate / k)) + (k - rate) - stirling(k);
    if (log_double(mul(v, inverse) / (a / mul(s, s) + b)) <= density) break;
  }
  return k;
}

struct Poisson {
  REPDL_HD double operator()(const Position& at, std::uint64_t n, double rate) const {
    return rate >= 30.0 ? transformed(at, n, rate) : arrivals(at, n, rate);
  }
};

}  // namespace repdl::random
