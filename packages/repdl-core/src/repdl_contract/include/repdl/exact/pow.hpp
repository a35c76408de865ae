// x**p for one float p and many x, or for as many p, correctly rounded to float.
//
// fast: 2**(p log2|x|) in double. log2 has a relative error near 2**-52 and |p log2|x|| is at
// most 152 where it matters, so that the result's relative error is below 2**-43. It is certain
// unless a midpoint of two floats is closer than 2**-41, as near one of 2**16 results.
// accurate: exp(p ln|x|) with 256 bits behind the point, relative error below 2**-210. What is
// closer than 2**-190 to a midpoint is taken for the midpoint: powers can be midpoints,
// (2**12 + 1)**2 is one. That no other power is as close is not proven; of the 2**64 pairs of
// floats one in 2**165 is expected to be. All pairs cannot be run; tools/exact/prove.py runs
// all x for some p.
// Special values are those of IEEE 754's pow; NaN is 0x7fc00000.
#pragma once

#include "repdl/exact/logarithm.hpp"
#include "repdl/exact/two_paths.hpp"
#include "repdl/exact/wide.hpp"

namespace repdl::exact {

// A function with two paths (see two_paths.hpp).
struct Pow {
  float p;
  bool integer, odd;
  std::uint32_t special_power;          // 1 if p is 0, infinite or NaN
  std::uint32_t no_power_of_negatives;  // 1 if it is no integer
  std::uint32_t sign_kept;              // the sign bit if it is odd

  REPDL_HD explicit Pow(float exponent) : p(exponent) {
    // Masks here too: powers of as many exponents are vectors.
    special_power = (p == 0.0f) | !(p - p == 0.0f);
    const double size = p < 0.0f ? -p : p, half = mul(0.5, size);
    integer = (size >= 0x1p+23) | ((size + magic) - magic == size);
    odd = integer & (size < 0x1p+24) & ((half + magic) - magic != half);
    no_power_of_negatives = !integer;
    sign_kept = odd ? 0x80000000u : 0u;
  }

  REPDL_HD float fast(float x, std::uint32_t& uncertain) const {
    const std::uint32_t bits = to_float_bits(x), size = bits & 0x7fffffffu;
    const Binade b = binade(float_from_bits(size));
    const double tail = log_tail(b.f);
    const double high = b.f - tail;
    const double low = (b.f - high) - tail;
    const double rest = madd(low, 0x1.71547652b82fep+0, mul(high, 0x1.777d0ffda0d24p-56));
    const double e = mul(double{p}, b.n + madd(high, 0x1.71547652b82fep+0, rest));

    // 2**t = 2**n (1 + r q(r)); beyond these bounds the result is inf or +0.
    const double upper = e > 130.0 ? 130.0 : e;
    const double t = upper < -152.0 ? -152.0 : upper;
    const double whole = t + magic;
    const double r = t - (whole - magic);
    // tools/exact/generate.py
    double q = 0x1.e5e9f548e5725p-28;
    q = madd(q, r, 0x1.b6571de2f2351p-24);
    q = madd(q, r, 0x1.62bfe46117445p-20);
    q = madd(q, r, 0x1.ffcb76789860fp-17);
    q = madd(q, r, 0x1.4309130378460p-13);
    q = madd(q, r, 0x1.5d87fe908f88ap-10);
    q = madd(q, r, 0x1.3b2ab6fba385fp-7);
    q = madd(q, r, 0x1.c6b08d7044119p-5);
    q = madd(q, r, 0x1.ebfbdff82c590p-3);
    q = madd(q, r, 0x1.62e42fefa39f7p-1);
    const std::uint64_t y = to_bits(madd(r, q, 1.0)) + (to_bits(whole) << 52);

    // Masks, not conditions: of those no compiler makes vectors.
    const bool near_midpoint = ((y + 0x10000800u) & 0x1fffffffu) < 0x1000u;
    const bool subnormal = y - 0x3680000000000000u < 0x01a0000000000000u;  // 2**-151 to 2**-125
    const bool unusual = size - 1u >= 0x7f7fffffu;                         // 0, inf, NaN
    uncertain |= near_midpoint | subnormal | unusual | (bits >> 31 & no_power_of_negatives) | special_power;
    return float_from_bits(to_float_bits(static_cast<float>(from_bits(y))) | (bits & sign_kept));
  }

  REPDL_HD float accurate(float x) const {
    if (p == 0.0f || x == 1.0f) return 1.0f;
    if (x != x || p != p) return quiet_nan();
    const float a = x < 0.0f ? -x : x;
    const bool negative = odd && (x < 0.0f || 1.0f / x < 0.0f);
    if (a == 1.0f) return !integer ? quiet_nan() : negative ? -1.0f : 1.0f;
    if (a == 0.0f || a == infinity() || !(p - p == 0.0f)) {
      const float result = (a > 1.0f) == (p > 0.0f) ? infinity() : 0.0f;
      return negative ? -result : result;
    }
    if (x < 0.0f && !integer) return quiet_nan();
    const float result = magnitude(a);
    return negative ? -result : result;
  }

 private:
  REPDL_HD static std::uint32_t to_float_bits(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  }

  // a**p for 0 < a < inf other than 1, finite p other than 0.
  REPDL_HD float magnitude(float a) const {
    // a = 2**n M / D with M / D in about [sqrt(1/2), sqrt(2)) and integers M, D below 2**25.
    const std::uint64_t a_bits = to_bits(a);
    const std::uint32_t M = static_cast<std::uint32_t>(a_bits >> 29 & 0x7fffff) | 0x800000u;
    const bool upper = M > 0xb504f3u;
    const std::uint32_t D = upper ? 0x1000000u : 0x800000u;
    const int n = static_cast<int>(a_bits >> 52) - 1023 + upper;

    // The product roughly, to sort out what overflows or underflows for certain.
    const Binade b = binade(a);
    const double e = mul(double{p}, b.n + mul(b.f - log_tail(b.f), 0x1.71547652b82fep+0));
    if (e > 130.0) return infinity();
    if (e < -152.0) return 0.0f;

    // product = |p| |ln a|
    const Wide part = ln_ratio(M < D ? D - M : M - D, M + D);
    const Wide whole = ln_2() * static_cast<std::uint32_t>(n < 0 ? -n : n);
    const Wide ln = n == 0 ? part : (n < 0) == (M < D) ? whole + part : whole - part;
    const std::uint64_t p_bits = to_bits(p);
    const std::uint32_t p_m = static_cast<std::uint32_t>(p_bits >> 29 & 0x7fffff) | 0x800000u;
    const Wide product = shifted(ln * p_m, static_cast<int>(p_bits >> 52 & 0x7ff) - 1023 - 23);

    // exp(product) = 2**k exp(r), r a little above 0 at least, whatever the error of e.
    int k = static_cast<int>(e + 1024.0 - 0x1p-20) - 1024;
    const Wide steps = ln_2() * static_cast<std::uint32_t>(k < 0 ? -k : k);
    Wide v = exp(e < 0.0 ? steps - product : k < 0 ? steps + product : product - steps);
    if (v.limb[8] > 1) {
      v = shifted(v, -1);
      ++k;
    }

    // v is in [1, 2): `keep` bits behind the point are those of the float.
    const int keep = k >= -126 ? 23 : k + 149;
    if (keep < -1) return 0.0f;
    const int drop = 32 - keep;
    const std::uint64_t head = static_cast<std::uint64_t>(v.limb[8]) << 32 | v.limb[7];
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    const std::uint64_t rest = head & (2 * half - 1);
    std::uint32_t all = 0xffffffffu, any = 0u;
    for (int i = 2; i < 7; ++i) {
      all &= v.limb[i];
      any |= v.limb[i];
    }
    const bool tie = (rest == half && any == 0u) || (rest == half - 1 && all == 0xffffffffu);
    const std::uint64_t cut = head >> drop;
    const std::uint64_t rounded = cut + (tie ? cut & 1 : rest >= half);
    const double scale = from_bits(static_cast<std::uint64_t>(k - keep + 1023) << 52);
    return static_cast<float>(mul(static_cast<double>(rounded), scale));
  }
};

// Pow(p).accurate(x): apart, with registers of its own.
REPDL_HD_APART inline float pow_accurate(float x, float p) { return Pow(p).accurate(x); }

// x**p, both of them arguments.
struct Powers {
  REPDL_HD float fast(float x, float p, std::uint32_t& uncertain) const { return Pow(p).fast(x, uncertain); }
  REPDL_HD float accurate(float x, float p) const { return pow_accurate(x, p); }
};

REPDL_HD inline float pow(float x, float p) {
  std::uint32_t uncertain = 0;
  const float result = Pow(p).fast(x, uncertain);
  return uncertain == 0 ? result : pow_accurate(x, p);
}

}  // namespace repdl::exact
