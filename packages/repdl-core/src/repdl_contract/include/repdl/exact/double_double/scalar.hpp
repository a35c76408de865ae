// The vector of one double that double_double/arithmetic.hpp asks for.
#pragma once

#include <cmath>

#include "repdl/contract/bits.hpp"
#include "repdl/exact/double_double/arithmetic.hpp"

namespace repdl::exact::double_double {

struct Double {
  double v;

  REPDL_HD static Double set1(double x) { return {x}; }
};

REPDL_HD inline Double operator+(Double a, Double b) { return {a.v + b.v}; }
REPDL_HD inline Double operator-(Double a, Double b) { return {a.v - b.v}; }
REPDL_HD inline Double operator-(Double a) { return {-a.v}; }
REPDL_HD inline Double operator*(Double a, Double b) { return {mul(a.v, b.v)}; }
REPDL_HD inline Double operator/(Double a, Double b) { return {a.v / b.v}; }

struct Truth {
  bool m;
};

REPDL_HD inline Truth operator&(Truth a, Truth b) { return {a.m && b.m}; }
REPDL_HD inline Truth operator|(Truth a, Truth b) { return {a.m || b.m}; }
REPDL_HD inline Truth operator<(Double a, Double b) { return {a.v < b.v}; }
REPDL_HD inline Truth operator==(Double a, Double b) { return {a.v == b.v}; }

REPDL_HD inline bool everywhere(Truth a) { return a.m; }

REPDL_HD inline Double madd(Double a, Double b, Double c) { return {exact::madd(a.v, b.v, c.v)}; }

// a b - p, exactly, for p = a b rounded. Without the instruction by halves of the factors (T. J. Dekker, "A
// floating-point technique for extending the available precision", Numerische Mathematik 18, 1971).
REPDL_HD inline Double product_error(Double a, Double b, Double p) {
#if defined(__CUDA_ARCH__) || defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__)
  return {repdl::fma(a.v, b.v, -p.v)};
#else
  const auto high = [](double x) { return from_bits((to_bits(x) + 0x4000000u) & ~std::uint64_t{0x7ffffff}); };
  const double ah = high(a.v), al = a.v - ah, bh = high(b.v), bl = b.v - bh;
  return {((ah * bh - p.v) + ah * bl + al * bh) + al * bl};
#endif
}

REPDL_HD inline Double select(Truth mask, Double a, Double b) { return mask.m ? a : b; }
REPDL_HD inline Double absolute(Double x) { return {from_bits(to_bits(x.v) & 0x7fffffffffffffffu)}; }
REPDL_HD inline Double with_sign(Double size, Double x) {
  return {from_bits(to_bits(size.v) | (to_bits(x.v) & 0x8000000000000000u))};
}
REPDL_HD inline Double root(Double x) { return {std::sqrt(x.v)}; }

// Bits of a number as an integer, which a double carries.
REPDL_HD inline Double plus_bits(Double x, Double bits) { return {from_bits(to_bits(x.v) + to_bits(bits.v))}; }
REPDL_HD inline Double minus_bits(Double x, Double bits) { return {from_bits(to_bits(x.v) - to_bits(bits.v))}; }
REPDL_HD inline Double and_bits(Double x, std::uint64_t mask) { return {from_bits(to_bits(x.v) & mask)}; }
REPDL_HD inline Double left(Double x, int by) { return {from_bits(to_bits(x.v) << by)}; }
REPDL_HD inline Double right(Double x, int by) { return {from_bits(to_bits(x.v) >> by)}; }

// n of the bits n 2**52, as a number.
REPDL_HD inline Double exponent_of(Double power) {
  return {static_cast<double>(static_cast<std::int64_t>(to_bits(power.v)) >> 52)};
}

// table[index], index an integer in bits.
REPDL_HD inline Double look_up(const double* table, Double index) { return {table[to_bits(index.v)]}; }

}  // namespace repdl::exact::double_double
