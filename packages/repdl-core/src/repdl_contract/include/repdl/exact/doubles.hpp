// The exact functions of doubles, correctly rounded to double.
#pragma once

#include "repdl/exact/accurate_pow.hpp"

namespace repdl::exact {

REPDL_HD inline double acos(double x) { return accurate::acos(x); }
REPDL_HD inline double acosh(double x) { return accurate::acosh(x); }
REPDL_HD inline double asin(double x) { return accurate::asin(x); }
REPDL_HD inline double asinh(double x) { return accurate::asinh(x); }
REPDL_HD inline double atan(double x) { return accurate::atan(x); }
REPDL_HD inline double atanh(double x) { return accurate::atanh(x); }
REPDL_HD inline double cos(double x) { return accurate::cos(x); }
REPDL_HD inline double cosh(double x) { return accurate::cosh(x); }
REPDL_HD inline double erf(double x) { return accurate::erf(x); }
REPDL_HD inline double erfc(double x) { return accurate::erfc(x); }
REPDL_HD inline double erfinv(double x) { return accurate::erfinv(x); }
REPDL_HD inline double exp(double x) { return accurate::exp(x); }
REPDL_HD inline double exp2(double x) { return accurate::exp2(x); }
REPDL_HD inline double expm1(double x) { return accurate::expm1(x); }
REPDL_HD inline double log(double x) { return accurate::log(x); }
REPDL_HD inline double log10(double x) { return accurate::log10(x); }
REPDL_HD inline double log1p(double x) { return accurate::log1p(x); }
REPDL_HD inline double log2(double x) { return accurate::log2(x); }
REPDL_HD inline double rsqrt(double x) { return accurate::rsqrt(x); }
REPDL_HD inline double sigmoid(double x) { return accurate::sigmoid(x); }
REPDL_HD inline double sin(double x) { return accurate::sin(x); }
REPDL_HD inline double sinh(double x) { return accurate::sinh(x); }
REPDL_HD inline double tan(double x) { return accurate::tan(x); }
REPDL_HD inline double tanh(double x) { return accurate::tanh(x); }
REPDL_HD inline double pow(double x, double p) { return accurate::pow(x, p); }
REPDL_HD inline double atan2(double y, double x) { return accurate::atan2(y, x); }

}  // namespace repdl::exact
