// The inverse of the error function, correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// With w = -log(1 - x**2), at most 15.95, it is x p(w) for w < 5 and x q(sqrt(w)) beyond, everything
// in double.
// erfinv(+-0) = +-0, erfinv(+-1) = +-inf; of |x| > 1 and NaN 0x7fc00000.
#pragma once

#include <cmath>

#include "repdl/exact/logarithm.hpp"

namespace repdl::exact {

// p(v) where `near`, elsewhere q(v + 3.125)
REPDL_HD_INLINE double erfinv_polynomial(bool near, double v) {
  // tools/exact/generate.py erfinv erfinv_far
  double p = near ? 0x1.0d73b87d5331bp-68 : 0x1.3a7d4cc6a93d2p-31;
  p = madd(p, v, near ? -0x1.418a91aeedfcep-62 : -0x1.5fbf2c5794097p-29);
  p = madd(p, v, near ? 0x1.5a23720a7a3b2p-57 : 0x1.6ff7291eae88ep-30);
  p = madd(p, v, near ? -0x1.bd6e2eb8edac2p-53 : 0x1.e780ff0074f9dp-27);
  p = madd(p, v, near ? 0x1.7c74d8a8991cfp-49 : -0x1.638948af5132ap-25);
  p = madd(p, v, near ? -0x1.c273c5af496c2p-46 : 0x1.144b6a0716283p-25);
  p = madd(p, v, near ? 0x1.751406dcebd10p-43 : 0x1.172db8c3633a2p-23);
  p = madd(p, v, near ? -0x1.ac044b08b88f5p-41 : -0x1.1f037799d49afp-21);
  p = madd(p, v, near ? 0x1.5dc1b263f2028p-39 : 0x1.939af4bd54174p-21);
  p = madd(p, v, near ? -0x1.1130660a3c1b6p-37 : 0x1.dd4e8bbd706b1p-21);
  p = madd(p, v, near ? 0x1.1354ee35fb9b8p-35 : -0x1.a4f2c41a978cap-18);
  p = madd(p, v, near ? -0x1.c9eabdafe7385p-35 : 0x1.7eb32efaccaa4p-17);
  p = madd(p, v, near ? -0x1.026ca1af65086p-31 : 0x1.253530d3abb1fp-19);
  p = madd(p, v, near ? 0x1.7aaf391d407dep-31 : -0x1.edb308d49e489p-15);
  p = madd(p, v, near ? 0x1.88ab80661c16cp-26 : 0x1.1d6ebcf89456ap-13);
  p = madd(p, v, near ? -0x1.40c46b7b75fa4p-25 : -0x1.779cef6ccf032p-14);
  p = madd(p, v, near ? -0x1.0fcc5da376ad7p-20 : -0x1.58a0944050b41p-12);
  p = madd(p, v, near ? 0x1.0f1de65e83903p-19 : 0x1.4a7a1f6e37bd2p-10);
  p = madd(p, v, near ? 0x1.87015036d4944p-15 : -0x1.4a493b8115f52p-9);
  p = madd(p, v, near ? -0x1.0c86b8748f2ffp-13 : 0x1.f1579bc05d80ep-9);
  p = madd(p, v, near ? -0x1.3211025dcbc9dp-9 : -0x1.5b683332fb000p-8);
  p = madd(p, v, near ? 0x1.7a72e72c1e14bp-7 : 0x1.cde3e114955c4p-8);
  p = madd(p, v, near ? 0x1.db29fb2fee5e9p-3 : 0x1.00f3b54ba7ef0p+0);
  p = madd(p, v, near ? 0x1.c5bf891b4ef6bp-1 : 0x1.7aaa3c1430b73p+1);
  return p;
}

REPDL_HD inline float erfinv(float x) {
  const double a = x < 0.0f ? -x : x;
  const Binade b = binade(1.0 - mul(a, a));
  const double w = madd(b.n, -0x1.62e42fefa39efp-1, log_tail(b.f) - b.f);
  const bool near = w < 5.0;
#if defined(__CUDA_ARCH__) || defined(REPDL_EMULATED)
  // A branch: most warps have one side only. Elsewhere compilers make vectors of what selects.
  const double p = near ? erfinv_polynomial(true, w) : erfinv_polynomial(false, std::sqrt(w) - 3.125);
#else
  const double p = erfinv_polynomial(near, near ? w : std::sqrt(w) - 3.125);
#endif
  float size = static_cast<float>(mul(a, p));
  size = a == 0x1.51904ep-3 ? 0x1.2d5172p-3f : size;  // 0x3e28c827, too near the midpoint of two floats
  size = a == 1.0 ? infinity() : size;
  float result = x < 0.0f ? -size : size;
  result = x == 0.0f ? x : result;
  return a <= 1.0 ? result : quiet_nan();
}

}  // namespace repdl::exact
