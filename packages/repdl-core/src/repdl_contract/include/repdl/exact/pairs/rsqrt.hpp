// rsqrt by pairs of floats (pairs.hpp).
//
// y = 1 / sqrt(x), rounded twice, then y + y (1 - x y**2) / 2, with an error near 2**-46.
#pragma once

#include "repdl/contract/bits.hpp"
#include "repdl/exact/pairs/pairs.hpp"

namespace repdl::exact::pairs {

template <class V>
REPDL_HD_INLINE Rounded<V> rsqrt(V x) {
  const V y = V::set1(1.0f) / root(x);
  const V t = x * y, t_rest = fma(x, y, -t);
  const V e = fma(-t_rest, y, fma(-t, y, V::set1(1.0f)));
  const auto normal = (V::set1(0x1p-126f) < x) & (x < V::set1(infinity()));
  const Rounded<V> result = rounded(DoubleFloat<V>{y, y * e * V::set1(0.5f)}, y * V::set1(0x1p-42f));
  return {result.value, result.decided & normal};
}

}  // namespace repdl::exact::pairs
