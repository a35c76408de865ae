// log(1 + x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// Everything in double (logarithm.hpp).
// log1p(+-0) = +-0, log1p(-1) = -inf, log1p(inf) = inf, log1p(x < -1) = NaN = 0x7fc00000.
#pragma once

#include "repdl/exact/logarithm.hpp"
#include "repdl/exact/pairs/log.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float log1p_by_doubles(float x) {
  float result = static_cast<float>(log1p_double(x));

  // The nine arguments for which the double nearest to log(1 + x) is, or is too near, the midpoint
  // of two floats.
  result = x == -0x1.7ffffap-21f ? -0x1.800002p-21f : result;  // 0xb53ffffd
  result = x == 0x1.800006p-21f ? 0x1.7ffffep-21f : result;    // 0x35400003
  result = x == -0x1.1fffcap-17f ? -0x1.20001ap-17f : result;  // 0xb70fffe5
  result = x == 0x1.200036p-17f ? 0x1.1fffe6p-17f : result;    // 0x3710001b
  result = x == -0x1.1d9188p-9f ? -0x1.1de14ap-9f : result;    // 0xbb0ec8c4
  result = x == 0x1.fb035ap-2f ? 0x1.9bddc2p-2f : result;      // 0x3efd81ad
  result = x == 0x1.0f1fd6p+3f ? 0x1.1fcbcep+1f : result;      // 0x41078feb
  result = x == 0x1.b121a6p+76f ? 0x1.a9a3f2p+5f : result;     // 0x65d890d3
  result = x == 0x1.6351d8p+95f ? 0x1.08b512p+6f : result;     // 0x6f31a8ec
  result = x == 0.0f || x == infinity() ? x : result;
  result = x == -1.0f ? -infinity() : result;
  return x >= -1.0f ? result : quiet_nan();
}

REPDL_HD inline float log1p_by_pairs(float x) {
  return pairs::or_else<log1p_by_doubles>(x, pairs::log1p(pairs::Single{x}));
}

REPDL_HD inline float log1p(float x) { return of_target<log1p_by_doubles, log1p_by_pairs>(x); }

}  // namespace repdl::exact
