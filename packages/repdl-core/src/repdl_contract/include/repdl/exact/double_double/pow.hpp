// x**p in double-doubles, x positive: exp(p log(x)). log has a relative error of 2**-80, and |p log(x)| is below 708.
#pragma once

#include "repdl/exact/double_double/log.hpp"

namespace repdl::exact::double_double {

template <class V>
REPDL_HD_INLINE Rounded<V> pow(V x, V p) {
  const Pair<V> t = log_pair<true>(x) * p;
  const ExpParts<V> e = exp_parts(Pair<V>{bounded(t.hi, -720.0, 720.0), t.lo});
  const Rounded<V> y = rounded(unscaled(e), exp_margin);
  const auto plain = (absolute(t.hi) < V::set1(708.0)) & (absolute(p) < V::set1(0x1p+900)) &
                     ((V::set1(0x1p-900) < absolute(p)) | (p == V::set1(0.0)));
  return {plus_bits(y.value, e.power), y.decided & plain & log_in_range(x)};
}

}  // namespace repdl::exact::double_double
