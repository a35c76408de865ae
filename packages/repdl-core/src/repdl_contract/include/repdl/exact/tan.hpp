// tan(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// tan(x) = sin(x) / cos(x), both of sin.hpp as doubles, which have their full relative accuracy
// near their zeros too: three roundings near 2**-53, and then the one to float.
// tan(+-0) = +-0; of +-inf and NaN 0x7fc00000.
#pragma once

#include "repdl/exact/sin.hpp"

namespace repdl::exact {

// Two paths (see two_paths.hpp): `fast` for |x| <= 2**20, `accurate` for every other x.
struct Tan {
  REPDL_HD float fast(float x, std::uint32_t& uncertain) const {
    uncertain |= is_large(x);
    const float result = static_cast<float>(sin_small(x) / cos_small(x));
    return x == 0.0f ? x : result;
  }

  REPDL_HD float accurate(float x) const {
    return x - x == 0.0f ? static_cast<float>(sin_large(x) / cos_large(x)) : quiet_nan();
  }
};

REPDL_HD inline float tan(float x) { return either(Tan(), x); }

}  // namespace repdl::exact
