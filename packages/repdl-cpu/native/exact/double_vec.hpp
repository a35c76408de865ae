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

[[gnu::always_inline]] inline Vec64 acos(Vec64 x) {
  return or_accurate<exact::accurate::acos>(exact::double_double::acos(x), x);
}
[[gnu::always_inline]] inline Vec64 acosh(Vec64 x) {
  return or_accurate<exact::accurate::acosh>(exact::double_double::acosh(x), x);
}
[[gnu::always_inline]] inline Vec64 asin(Vec64 x) {
  return or_accurate<exact::accurate::asin>(exact::double_double::asin(x), x);
}
[[gnu::always_inline]] inline Vec64 asinh(Vec64 x) {
  return or_accurate<exact::accurate::asinh>(exact::double_double::asinh(x), x);
}
[[gnu::always_inline]] inline Vec64 atan(Vec64 x) {
  return or_accurate<exact::accurate::atan>(exact::double_double::atan(x), x);
}
[[gnu::always_inline]] inline Vec64 atanh(Vec64 x) {
  return or_accurate<exact::accurate::atanh>(exact::double_double::atanh(x), x);
}
[[gnu::always_inline]] inline Vec64 cos(Vec64 x) {
  return or_accurate<exact::accurate::cos>(exact::double_double::cos(x), x);
}
[[gnu::always_inline]] inline Vec64 cosh(Vec64 x) {
  return or_accurate<exact::accurate::cosh>(exact::double_double::cosh(x), x);
}
[[gnu::always_inline]] inline Vec64 erf(Vec64 x) {
  return or_accurate<exact::accurate::erf>(exact::double_double::erf(x), x);
}
[[gnu::always_inline]] inline Vec64 erfc(Vec64 x) {
  return or_accurate<exact::accurate::erfc>(exact::double_double::erfc(x), x);
}
[[gnu::always_inline]] inline Vec64 erfinv(Vec64 x) {
  return or_accurate<exact::accurate::erfinv>(exact::double_double::erfinv(x), x);
}
[[gnu::always_inline]] inline Vec64 exp(Vec64 x) {
  return or_accurate<exact::accurate::exp>(exact::double_double::exp(x), x);
}
[[gnu::always_inline]] inline Vec64 exp2(Vec64 x) {
  return or_accurate<exact::accurate::exp2>(exact::double_double::exp2(x), x);
}
[[gnu::always_inline]] inline Vec64 expm1(Vec64 x) {
  return or_accurate<exact::accurate::expm1>(exact::double_double::expm1(x), x);
}
[[gnu::always_inline]] inline Vec64 log(Vec64 x) {
  return or_accurate<exact::accurate::log>(exact::double_double::log(x), x);
}
[[gnu::always_inline]] inline Vec64 log10(Vec64 x) {
  return or_accurate<exact::accurate::log10>(exact::double_double::log10(x), x);
}
[[gnu::always_inline]] inline Vec64 log1p(Vec64 x) {
  return or_accurate<exact::accurate::log1p>(exact::double_double::log1p(x), x);
}
[[gnu::always_inline]] inline Vec64 log2(Vec64 x) {
  return or_accurate<exact::accurate::log2>(exact::double_double::log2(x), x);
}
[[gnu::always_inline]] inline Vec64 rsqrt(Vec64 x) {
  return or_accurate<exact::accurate::rsqrt>(exact::double_double::rsqrt(x), x);
}
[[gnu::always_inline]] inline Vec64 sigmoid(Vec64 x) {
  return or_accurate<exact::accurate::sigmoid>(exact::double_double::sigmoid(x), x);
}
[[gnu::always_inline]] inline Vec64 sin(Vec64 x) {
  return or_accurate<exact::accurate::sin>(exact::double_double::sin(x), x);
}
[[gnu::always_inline]] inline Vec64 sinh(Vec64 x) {
  return or_accurate<exact::accurate::sinh>(exact::double_double::sinh(x), x);
}
[[gnu::always_inline]] inline Vec64 tan(Vec64 x) {
  return or_accurate<exact::accurate::tan>(exact::double_double::tan(x), x);
}
[[gnu::always_inline]] inline Vec64 tanh(Vec64 x) {
  return or_accurate<exact::accurate::tanh>(exact::double_double::tanh(x), x);
}

// A negative x is undecided: exact::pow knows its sign.
[[gnu::always_inline]] inline Vec64 pow(Vec64 x, Vec64 p) {
  return or_accurate<static_cast<double (*)(double, double)>(exact::pow)>(exact::double_double::pow(x, p), x, p);
}
[[gnu::always_inline]] inline Vec64 atan2(Vec64 y, Vec64 x) {
  return or_accurate<exact::atan2_accurately>(exact::double_double::atan2(y, x), y, x);
}

#endif

}  // namespace repdl::cpu
