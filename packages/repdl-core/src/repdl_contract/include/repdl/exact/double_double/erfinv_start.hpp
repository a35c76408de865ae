// Where erfinv's iteration starts: erfinv(x) / x with a relative error below 2**-26, of w = -log(1 - x**2).
//
// A polynomial in w up to 5, and one in sqrt(w) - 4.125 from there to 36.1, the largest w of a double.
#pragma once

#include "repdl/exact/double_double/arithmetic.hpp"

namespace repdl::exact::double_double {

template <class V>
REPDL_HD_INLINE V erfinv_start(V w) {
  // tools/exact/generate.py erfinv_start erfinv_start_far
  constexpr double terms[15][2] = {
      {0x1.ed59c25739ee0p-42, 0x1.a63a3ea1be1bcp-29},  {-0x1.13c53a2b8d1b9p-36, 0x1.7ca6056340e14p-24},
      {0x1.fa0ee157b229bp-33, -0x1.defde33ad3ca8p-22}, {-0x1.be7a0e001b99ep-30, -0x1.08a1fa90d2812p-24},
      {0x1.e92b8f84fc132p-29, 0x1.e00277eb4d042p-19},  {0x1.4fb4a4c20d5f3p-26, -0x1.fd38c12a46d1ep-18},
      {-0x1.5be74d8c9de7ap-25, 0x1.231bf2dbc7929p-17}, {-0x1.0a8b9a0262d5dp-20, -0x1.efcf42fab1fb7p-17},
      {0x1.0a3abb9d8a9bcp-19, 0x1.2a3915001ae2fp-15},  {0x1.8752e4ff93290p-15, -0x1.701740774214cp-14},
      {-0x1.0c9364e0ccfdfp-13, 0x1.0e6e7511bc72ep-12}, {-0x1.3210ba6231434p-9, -0x1.7b9d3fe0747dap-11},
      {0x1.7a72e3f16ecd9p-7, 0x1.f85cc8ee894ddp-11},   {0x1.db29fb337e462p-3, 0x1.02804568759c5p+0},
      {0x1.c5bf891b4c6a6p-1, 0x1.fba583003a206p+1}};
  const auto near = w < V::set1(5.0);
  const V v = select(near, w, root(w) - V::set1(4.125));
  V p = select(near, V::set1(terms[0][0]), V::set1(terms[0][1]));
  for (int i = 1; i < 15; ++i) p = madd(p, v, select(near, V::set1(terms[i][0]), V::set1(terms[i][1])));
  return p;
}

}  // namespace repdl::exact::double_double
