// sin(x) and cos(x), correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// sin(x) = (-1)**k sin(r) with r = x - k pi, cos(x) = (-1)**(j+1) sin(r) with
// r = x - (j + 1/2) pi, |r| <= pi / 2, sin(r) = r + r**3 p(r**2), everything in double.
// Up to |x| = 2**20 the reduction is by pi in three parts; beyond, by integer products with
// 128 bits of 1 / pi (Payne and Hanek). Either way r has its full relative accuracy.
// sin(+-0) = +-0, cos(+-0) = 1; of +-inf and NaN 0x7fc00000.
#pragma once

#include "repdl/exact/pairs/sin.hpp"
#include "repdl/exact/pairs/single.hpp"
#include "repdl/exact/two_paths.hpp"

namespace repdl::exact {

// r + r**3 p(r**2), with its sign inverted where the lowest bit of `odd` is set.
REPDL_HD inline double signed_sin(double r, std::uint64_t odd) {
  const double z = mul(r, r);
  // tools/exact/generate.py
  double p = 0x1.89a43bea5b135p-49;
  p = madd(p, z, -0x1.ae51366b753a9p-41);
  p = madd(p, z, 0x1.612401540ed0fp-33);
  p = madd(p, z, -0x1.ae6455a1c0795p-26);
  p = madd(p, z, 0x1.71de3a54564dfp-19);
  p = madd(p, z, -0x1.a01a01a018aaap-13);
  p = madd(p, z, 0x1.1111111111107p-7);
  p = madd(p, z, -0x1.5555555555555p-3);
  return from_bits(to_bits(madd(mul(r, z), p, r)) ^ (odd << 63));
}

// t - k pi for |t| <= 2**20, k an integer or half of one: the products with the first two
// parts of pi are exact (33 bits each, 20 of k), and so is the first difference.
REPDL_HD inline double less_pi(double t, double k) {
  double r = madd(k, -0x1.921fb544p+1, t);
  r = madd(k, -0x1.0b4611a6p-33, r);
  return madd(k, -0x1.3198a2e037073p-68, r);
}

// |x| / pi modulo 2 in units of 2**-127, for finite |x| >= 2**20: an error below 2**-103.
struct Turns {
  std::uint64_t high, low;
};

REPDL_HD inline Turns turns(float x) {
  // 1 / pi: the bits of weight 2**31 ... 2**0 (none), then 2**-1, 2**-2, ...
  constexpr std::uint32_t bits[9] = {0x00000000u, 0x517cc1b7u, 0x27220a94u, 0xfe13abe8u, 0xfa9a6ee0u,
                                     0x6db14accu, 0x9e21c820u, 0xff28b1d5u, 0xef5de2b0u};
  const std::uint64_t pattern = to_bits(x);
  const std::uint64_t m = (pattern >> 29 & 0x7fffff) | 0x800000;      // |x| = m 2**e
  const int e = static_cast<int>(pattern >> 52 & 0x7ff) - 1023 - 23;  // -3 to 104
  // 128 bits from that of weight 2**-e on: what is above makes whole multiples of 2.
  const int word = (31 + e) >> 5, shift = (31 + e) & 31;
  std::uint64_t window[4];
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t pair = static_cast<std::uint64_t>(bits[word + i]) << 32 | bits[word + i + 1];
    window[i] = pair << shift >> 32;
  }
  const std::uint64_t p3 = window[3] * m;
  const std::uint64_t p2 = window[2] * m + (p3 >> 32);
  const std::uint64_t p1 = window[1] * m + (p2 >> 32);
  const std::uint64_t p0 = window[0] * m + (p1 >> 32);
  return {p0 << 32 | (p1 & 0xffffffffu), p2 << 32 | (p3 & 0xffffffffu)};
}

// The angle of `high` (below 2**63, its middle counting as 0) and `low`, in units of 2**-127 pi.
REPDL_HD inline double centred(std::uint64_t high, std::uint64_t low) {
  const double a = static_cast<double>(static_cast<std::int64_t>(high) - (std::int64_t{1} << 62));
  const double turn = madd(static_cast<double>(low), 0x1p-127, mul(a, 0x1p-63));
  return mul(turn, 0x1.921fb54442d18p+1);
}

// sin(x) and cos(x) for |x| <= 2**20
REPDL_HD inline double sin_small(float x) {
  const double shifted = madd(x, 0x1.45f306dc9c883p-2, magic);
  return signed_sin(less_pi(x, shifted - magic), to_bits(shifted));
}

REPDL_HD inline double cos_small(float x) {
  const double shifted = madd(x, 0x1.45f306dc9c883p-2, -0.5) + magic;
  return signed_sin(less_pi(x, (shifted - magic) + 0.5), to_bits(shifted) + 1);
}

// The same for finite |x| >= 2**20
REPDL_HD inline double sin_large(float x) {
  const Turns t = turns(x);
  const std::uint64_t high = t.high + (std::uint64_t{1} << 62);  // half a unit more: rounded, not cut
  const std::uint64_t odd = (high >> 63) ^ (x < 0.0f);
  return signed_sin(centred(high & 0x7fffffffffffffffu, t.low), odd);
}

REPDL_HD inline double cos_large(float x) {
  const Turns t = turns(x);
  return signed_sin(centred(t.high & 0x7fffffffffffffffu, t.low), (t.high >> 63) + 1);
}

REPDL_HD inline bool is_large(float x) { return !(x <= 0x1p+20f && x >= -0x1p+20f); }  // NaN too

// Two paths (see two_paths.hpp): `fast` for |x| <= 2**20, `accurate` for every other x.
struct Sin {
  REPDL_HD float fast(float x, std::uint32_t& uncertain) const {
    uncertain |= is_large(x);
    float result = static_cast<float>(sin_small(x));

    // The two arguments for which the double nearest to sin(x) is the midpoint of two floats.
    result = x == 0x1.33333p+13f ? -0x1.63f4bap-2f : result;  // 0x46199998
    result = x == -0x1.33333p+13f ? 0x1.63f4bap-2f : result;  // 0xc6199998
    return x == 0.0f ? x : result;
  }

  REPDL_HD float accurate(float x) const { return x - x == 0.0f ? static_cast<float>(sin_large(x)) : quiet_nan(); }
};

struct Cos {
  REPDL_HD float fast(float x, std::uint32_t& uncertain) const {
    uncertain |= is_large(x);
    return static_cast<float>(cos_small(x));
  }

  REPDL_HD float accurate(float x) const {
    if (!(x - x == 0.0f)) return quiet_nan();
    float result = static_cast<float>(cos_large(x));

    // The arguments (and their negatives) for which the double nearest to cos(x) is, or is too
    // near, the midpoint of two floats.
    const float a = x < 0.0f ? -x : x;
    result = a == 0x1.3170f0p+63f ? 0x1.fe2976p-1f : result;  // 0x5f18b878
    result = a == 0x1.2b9622p+67f ? 0x1.f0285ep-1f : result;  // 0x6115cb11
    return a == 0x1.119ae6p+115f ? 0x1.f3176ap-1f : result;   // 0x7908cd73
  }
};

REPDL_HD inline float sin_by_doubles(float x) { return either(Sin(), x); }

REPDL_HD inline float sin_by_pairs(float x) { return pairs::or_else<sin_by_doubles>(x, pairs::sin(pairs::Single{x})); }

REPDL_HD inline float sin(float x) { return of_target<sin_by_doubles, sin_by_pairs>(x); }

REPDL_HD inline float cos_by_doubles(float x) { return either(Cos(), x); }

REPDL_HD inline float cos_by_pairs(float x) { return pairs::or_else<cos_by_doubles>(x, pairs::cos(pairs::Single{x})); }

REPDL_HD inline float cos(float x) { return of_target<cos_by_doubles, cos_by_pairs>(x); }

}  // namespace repdl::exact
