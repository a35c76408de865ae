// The vector of one float that pairs.hpp asks for: what a thread of a GPU has.
#pragma once

#include <cmath>
#include <cstdint>

#include "repdl/contract/bits.hpp"
#include "repdl/exact/pairs/pairs.hpp"

namespace repdl::exact::pairs {

struct Single {
  float v;

  REPDL_HD static Single zero() { return {0.0f}; }
  REPDL_HD static Single set1(float x) { return {x}; }
};

struct Truth {
  bool m;
};

REPDL_HD inline Truth operator&(Truth a, Truth b) { return {a.m && b.m}; }
REPDL_HD inline Truth operator|(Truth a, Truth b) { return {a.m || b.m}; }
REPDL_HD inline Truth operator<(Single a, Single b) { return {a.v < b.v}; }
REPDL_HD inline Truth operator==(Single a, Single b) { return {a.v == b.v}; }
REPDL_HD inline Truth not_less(Single a, Single b) { return {!(a.v < b.v)}; }

REPDL_HD inline Single operator+(Single a, Single b) { return {a.v + b.v}; }
REPDL_HD inline Single operator-(Single a, Single b) { return {a.v - b.v}; }
REPDL_HD inline Single operator-(Single a) { return {-a.v}; }
REPDL_HD inline Single operator*(Single a, Single b) { return {mul(a.v, b.v)}; }
REPDL_HD inline Single operator/(Single a, Single b) { return {a.v / b.v}; }
REPDL_HD inline Single fma(Single a, Single b, Single c) { return {repdl::fma(a.v, b.v, c.v)}; }

REPDL_HD inline Single select(Truth mask, Single a, Single b) { return {mask.m ? a.v : b.v}; }
REPDL_HD inline Single mask_or_zero(Truth mask, Single a) { return {mask.m ? a.v : 0.0f}; }
// b where one is NaN, as on a CPU. Constants come first: of the other order compilers make an instruction that
// drops a NaN.
REPDL_HD inline Single smaller(Single a, Single b) { return {a.v < b.v ? a.v : b.v}; }
REPDL_HD inline Single larger(Single a, Single b) { return {a.v > b.v ? a.v : b.v}; }

REPDL_HD inline Single root(Single x) { return {std::sqrt(x.v)}; }

REPDL_HD inline std::int32_t bits_of(Single x) {
  std::int32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
REPDL_HD inline Single absolute(Single x) { return with_bits<Single>(bits_of(x) & 0x7fffffff); }
REPDL_HD inline Single minus_absolute(Single x) {
  return with_bits<Single>(bits_of(x) | static_cast<std::int32_t>(0x80000000u));
}
REPDL_HD inline Truth sign(Single x) { return {bits_of(x) < 0}; }
REPDL_HD inline Truth not_tiny(Single x) { return not_less(absolute(x), Single{0x1p-40f}); }

// y >= 0 with the sign of x.
REPDL_HD inline Single with_sign(Single y, Single x) {
  return with_bits<Single>(bits_of(y) | (bits_of(x) & static_cast<std::int32_t>(0x80000000u)));
}

// A table is one line of the L1 cache, which all threads of a warp read at once.
REPDL_HD inline Single look_up(const float* table, Single index) {
  const float* entry = table + (bits_of(index) & 31);
#if defined(__CUDA_ARCH__)
  return {__ldg(entry)};
#else
  return {*entry};
#endif
}

// x * 2**floor(k), x and the result normal; shifted = k + table_magic.
REPDL_HD inline Single scaled(Single x, Single, Single shifted) {
  return with_bits<Single>(bits_of(x) + (bits_of(shifted) >> table_log<Single> << 23));
}

// Whether `scaled` gives an exponential of x where that is normal for |x| < end.
REPDL_HD inline Truth scales(Single x, float end) { return absolute(x) < Single{end}; }

// x = 2**exponent mantissa, 1 <= mantissa < 2, and its leading bits as the index of tables, where `has_parts`.
struct Parts {
  Single exponent, mantissa, index;
};

REPDL_HD inline Parts parts(Single x) {
  const std::int32_t shifted = bits_of(x) - 0x3f800000;
  return {{static_cast<float>(shifted >> 23)},
          with_bits<Single>((shifted & 0x7fffff) + 0x3f800000),
          with_bits<Single>(shifted >> (23 - table_log<Single>))};
}

REPDL_HD inline Truth has_parts(Single x) {
  return (Single{0x1p-126f} < x) & (x < Single{float_from_bits(0x7f800000u)});
}

// The value where it is decided, elsewhere f(x), which rounds rightly: apart, with registers of its own.
template <float (*f)(float)>
REPDL_HD_APART float exactly(float x) {
  return f(x);
}

template <float (*f)(float)>
REPDL_HD_INLINE float or_else(float x, Rounded<Single> y) {
  return y.decided.m ? y.value.v : exactly<f>(x);
}

}  // namespace repdl::exact::pairs

namespace repdl::exact {

// On a GPU, and where its kernels are emulated, pairs: most GPUs have 64 times less throughput for doubles, and
// those that have half of it gain too (docs/correctly-rounded-functions.md). Elsewhere doubles: compilers vectorise
// them.
template <float (*doubles)(float), float (*pairs)(float)>
REPDL_HD_INLINE float of_target(float x) {
#if defined(__CUDA_ARCH__) || defined(REPDL_EMULATED)
  return pairs(x);
#else
  return doubles(x);
#endif
}

}  // namespace repdl::exact
