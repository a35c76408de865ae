// x**p where that is a few operations: the bits of pow.hpp, sooner.
#pragma once

#include <cmath>

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// x**3 is the sum of two products, both exact, of x with parts of its square.
REPDL_HD inline float cube(float x) {
  const double square = mul(double{x}, double{x});
  const double high = from_bits(to_bits(square) & ~std::uint64_t{0x1fffffff});  // as many bits as a float
  const float result = rounded_sum(mul(high, double{x}), mul(square - high, double{x}));
  return x - x == 0.0f ? result : mul(mul(x, x), x);
}

// Calls body(f) with a function f for x -> x**p, but for NaN's bits, if p is one of these.
template <class Body>
REPDL_HD inline bool with_plain_power(float p, const Body& body) {
  if (p == 1.0f)
    body([](float x) { return x; });
  else if (p == 2.0f)
    body([](float x) { return mul(x, x); });
  else if (p == 3.0f)
    body([](float x) { return cube(x); });
  else if (p == -1.0f)
    body([](float x) { return 1.0f / x; });
  else if (p == 0.5f)  // + 0.0f, as the root of -0 is +0 here
    body([](float x) { return x == -infinity() ? infinity() : std::sqrt(x + 0.0f); });
  else
    return false;
  return true;
}

}  // namespace repdl::exact
