// The exact functions of a whole Vec64: the bits of repdl/exact/doubles.hpp.
#pragma once

#include <array>
#include <utility>

#include "repdl/exact/doubles.hpp"
#include "simd/mask_double.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// f(x...) in these lanes, y elsewhere.
template <auto f, std::size_t... I>
__attribute__((noinline, cold)) Vec64 in_lanes(unsigned lanes, Vec64 y, const std::array<Vec64, sizeof...(I)>& x,
                                               std::index_sequence<I...>) {
  alignas(64) double given[sizeof...(I)][Vec64::width], result[Vec64::width];
  (x[I].store(given[I]), ...);
  y.store(result);
  for (; lanes != 0; lanes &= lanes - 1) {
    const int i = __builtin_ctz(lanes);
    result[i] = f(given[I][i]...);
  }
  return Vec64::load(result);
}

// The results that are decided, and f(x...) in the other lanes.
template <auto f, class... X>
[[gnu::always_inline]] inline Vec64 or_accurate(exact::double_double::Rounded<Vec64> y, X... x) {
  const unsigned left = lanes_of(y.decided) ^ all_lanes64;
  if (__builtin_expect(left == 0, 1)) return y.value;
  return in_lanes<f>(left, y.value, std::array<Vec64, sizeof...(X)>{x...}, std::index_sequence_for<X...>());
}

// What a fast path gives of a vector, for loops that compute the rest apart: a call in a loop takes the registers of
// its constants.
struct TestedVec64 {
  Vec64 value;
  Mask64 decided;
};

[[gnu::always_inline]] inline TestedVec64 tested(exact::double_double::Rounded<Vec64> y) {
  return {y.value, y.decided};
}

#define REPDL_EXACT(name)                                                        \
  [[gnu::always_inline]] inline Vec64 name(Vec64 x) {                            \
    return or_accurate<exact::accurate::name>(exact::double_double::name(x), x); \
  }                                                                              \
  [[gnu::always_inline]] inline TestedVec64 name(TestedVec64 x) { return tested(exact::double_double::name(x.value)); }

REPDL_EXACT(acos)
REPDL_EXACT(acosh)
REPDL_EXACT(asin)
REPDL_EXACT(asinh)
REPDL_EXACT(atan)
REPDL_EXACT(atanh)
REPDL_EXACT(cos)
REPDL_EXACT(cosh)
REPDL_EXACT(erf)
REPDL_EXACT(erfc)
REPDL_EXACT(erfinv)
REPDL_EXACT(exp)
REPDL_EXACT(exp2)
REPDL_EXACT(expm1)
REPDL_EXACT(log)
REPDL_EXACT(log10)
REPDL_EXACT(log1p)
REPDL_EXACT(log2)
REPDL_EXACT(rsqrt)
REPDL_EXACT(sigmoid)
REPDL_EXACT(sin)
REPDL_EXACT(sinh)
REPDL_EXACT(tan)
REPDL_EXACT(tanh)

#undef REPDL_EXACT

// A negative x is undecided: exact::pow knows its sign.
[[gnu::always_inline]] inline Vec64 pow(Vec64 x, Vec64 p) {
  return or_accurate<static_cast<double (*)(double, double)>(exact::pow)>(exact::double_double::pow(x, p), x, p);
}
[[gnu::always_inline]] inline TestedVec64 atan2(TestedVec64 y, TestedVec64 x) {
  return tested(exact::double_double::atan2(y.value, x.value));
}
[[gnu::always_inline]] inline Vec64 atan2(Vec64 y, Vec64 x) {
  return or_accurate<exact::atan2_accurately>(exact::double_double::atan2(y, x), y, x);
}

#else

struct TestedVec64 {
  Vec64 value;
  bool decided;
};

inline bool everywhere(bool decided) { return decided; }

#endif

}  // namespace repdl::cpu
