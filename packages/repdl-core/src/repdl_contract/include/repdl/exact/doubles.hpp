// The exact functions of doubles, correctly rounded to double: by double-doubles, and by big floats where these leave
// the rounding open.
#pragma once

#include "repdl/exact/accurate_pow.hpp"
#include "repdl/exact/double_double/atan.hpp"
#include "repdl/exact/double_double/erf.hpp"
#include "repdl/exact/double_double/pow.hpp"
#include "repdl/exact/double_double/scalar.hpp"
#include "repdl/exact/double_double/sin.hpp"

namespace repdl::exact {

using double_double::Double;

// Apart, with registers of its own.
template <double (*f)(double)>
REPDL_HD_APART double accurately(double x) {
  return f(x);
}

template <double (*f)(double)>
REPDL_HD_INLINE double or_accurate(double_double::Rounded<Double> y, double x) {
  return y.decided.m ? y.value.v : accurately<f>(x);
}

REPDL_HD inline double acos(double x) { return or_accurate<accurate::acos>(double_double::acos(Double{x}), x); }
REPDL_HD inline double acosh(double x) { return or_accurate<accurate::acosh>(double_double::acosh(Double{x}), x); }
REPDL_HD inline double asin(double x) { return or_accurate<accurate::asin>(double_double::asin(Double{x}), x); }
REPDL_HD inline double asinh(double x) { return or_accurate<accurate::asinh>(double_double::asinh(Double{x}), x); }
REPDL_HD inline double atan(double x) { return or_accurate<accurate::atan>(double_double::atan(Double{x}), x); }
REPDL_HD inline double atanh(double x) { return or_accurate<accurate::atanh>(double_double::atanh(Double{x}), x); }
REPDL_HD inline double cos(double x) { return or_accurate<accurate::cos>(double_double::cos(Double{x}), x); }
REPDL_HD inline double cosh(double x) { return or_accurate<accurate::cosh>(double_double::cosh(Double{x}), x); }
REPDL_HD inline double erf(double x) { return or_accurate<accurate::erf>(double_double::erf(Double{x}), x); }
REPDL_HD inline double erfc(double x) { return or_accurate<accurate::erfc>(double_double::erfc(Double{x}), x); }
REPDL_HD inline double erfinv(double x) { return or_accurate<accurate::erfinv>(double_double::erfinv(Double{x}), x); }
REPDL_HD inline double exp(double x) { return or_accurate<accurate::exp>(double_double::exp(Double{x}), x); }
REPDL_HD inline double exp2(double x) { return or_accurate<accurate::exp2>(double_double::exp2(Double{x}), x); }
REPDL_HD inline double expm1(double x) { return or_accurate<accurate::expm1>(double_double::expm1(Double{x}), x); }
REPDL_HD inline double log(double x) { return or_accurate<accurate::log>(double_double::log(Double{x}), x); }
REPDL_HD inline double log10(double x) { return or_accurate<accurate::log10>(double_double::log10(Double{x}), x); }
REPDL_HD inline double log1p(double x) { return or_accurate<accurate::log1p>(double_double::log1p(Double{x}), x); }
REPDL_HD inline double log2(double x) { return or_accurate<accurate::log2>(double_double::log2(Double{x}), x); }
REPDL_HD inline double sigmoid(double x) {
  return or_accurate<accurate::sigmoid>(double_double::sigmoid(Double{x}), x);
}
REPDL_HD inline double sin(double x) { return or_accurate<accurate::sin>(double_double::sin(Double{x}), x); }
REPDL_HD inline double sinh(double x) { return or_accurate<accurate::sinh>(double_double::sinh(Double{x}), x); }
REPDL_HD inline double tan(double x) { return or_accurate<accurate::tan>(double_double::tan(Double{x}), x); }
REPDL_HD inline double tanh(double x) { return or_accurate<accurate::tanh>(double_double::tanh(Double{x}), x); }

// 1 / r = sqrt(x): r in double, and what is left.
REPDL_HD inline double rsqrt(double x) { return or_accurate<accurate::rsqrt>(double_double::rsqrt(Double{x}), x); }

REPDL_HD_APART inline double pow_accurately(double x, double p) { return accurate::pow(x, p); }

REPDL_HD inline double pow(double x, double p) {
  const auto size = double_double::pow(Double{accurate::size_of(x)}, Double{p});
  if (!size.decided.m || (x < 0.0 && !accurate::is_integer(p))) return pow_accurately(x, p);
  const bool odd = x < 0.0 && accurate::size_of(p) < 0x1p+53 && !accurate::is_integer(mul(0.5, p));
  return odd ? -size.value.v : size.value.v;
}

REPDL_HD_APART inline double atan2_accurately(double y, double x) { return accurate::atan2(y, x); }

REPDL_HD inline double atan2(double y, double x) {
  const auto angle = double_double::atan2(Double{y}, Double{x});
  return angle.decided.m ? angle.value.v : atan2_accurately(y, x);
}

}  // namespace repdl::exact
