// The exact functions of a whole Vec64: the bits of repdl/exact/doubles.hpp.
#pragma once

#include "repdl/exact/doubles.hpp"
#include "simd/mask_double.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// f(x...) in the lanes that are not decided, y elsewhere.
template <double (*f)(double)>
__attribute__((noinline, cold)) Vec64 lanes_apart(Vec64 x, Vec64 y, unsigned lanes) {
  alignas(64) double given[Vec64::width], result[Vec64::width];
  x.store(given);
  y.store(result);
  for (; lanes != 0; lanes &= lanes - 1) {
    const int i = __builtin_ctz(lanes);
    result[i] = f(given[i]);
  }
  return Vec64::load(result);
}

template <double (*f)(double)>
[[gnu::always_inline]] inline Vec64 or_accurate(exact::double_double::Rounded<Vec64> y, Vec64 x) {
  const unsigned left = lanes_of(y.decided) ^ all_lanes64;
  return __builtin_expect(left == 0, 1) ? y.value : lanes_apart<f>(x, y.value, left);
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

inline Vec64 erfc(Vec64 x) { return lanes_apart<exact::erfc>(x, x, all_lanes64); }
inline Vec64 erfinv(Vec64 x) { return lanes_apart<exact::erfinv>(x, x, all_lanes64); }

// The same for functions of two numbers.
template <double (*f)(double, double)>
__attribute__((noinline, cold)) Vec64 lanes_apart(Vec64 x, Vec64 z, Vec64 y, unsigned lanes) {
  alignas(64) double given[2][Vec64::width], result[Vec64::width];
  x.store(given[0]);
  z.store(given[1]);
  y.store(result);
  for (; lanes != 0; lanes &= lanes - 1) {
    const int i = __builtin_ctz(lanes);
    result[i] = f(given[0][i], given[1][i]);
  }
  return Vec64::load(result);
}

// A negative x is undecided: exact::pow knows its sign.
[[gnu::always_inline]] inline Vec64 pow(Vec64 x, Vec64 p) {
  const auto y = exact::double_double::pow(x, p);
  const unsigned left = lanes_of(y.decided) ^ all_lanes64;
  return __builtin_expect(left == 0, 1) ? y.value : lanes_apart<exact::pow>(x, p, y.value, left);
}

[[gnu::always_inline]] inline Vec64 atan2(Vec64 y, Vec64 x) {
  const auto angle = exact::double_double::atan2(y, x);
  const unsigned left = lanes_of(angle.decided) ^ all_lanes64;
  return __builtin_expect(left == 0, 1) ? angle.value : lanes_apart<exact::atan2>(y, x, angle.value, left);
}

#endif

}  // namespace repdl::cpu
