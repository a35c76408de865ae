// exp of many numbers of each thread of a whole warp: exact::exp, without its loads of tables and its branches.
//
// The tables of pairs::exp lie in the lanes of the warp, which bring each other the entries. What pairs of floats do
// not decide, about one number in a thousand, is computed after all others.
#pragma once

#include "reduce/sum.hpp"
#include "repdl/exact/exp.hpp"

namespace repdl::cuda {

// Entry `shifted` of a table of 32, of which this lane has its own.
template <auto table>
__device__ inline exact::pairs::Single warp_entry(exact::pairs::Single shifted) {
  using exact::pairs::Single;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % warp_size);
  const Single mine = table(exact::pairs::with_bits<Single>(lane));
  return {__shfl_sync(full_warp_mask, mine.v, exact::pairs::bits_of(shifted) & 31)};
}

// pairs::exp with such tables.
__device__ inline exact::pairs::Rounded<exact::pairs::Single> warp_exp(exact::pairs::Single x) {
  using namespace exact::pairs;
  return exp_with_tables<warp_entry<exp_lower<Single>>, warp_entry<exp_lower_rest<Single>>>(x);
}

// x[i] = exact::exp(x[i])
template <int count>
__device__ void warp_exps(float (&x)[count]) {
  static_assert(count <= 32);
  unsigned undecided = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const auto y = warp_exp({x[i]});
    if (y.decided.m)
      x[i] = y.value.v;
    else
      undecided |= 1u << i;
  }
  if (undecided == 0) return;
#pragma unroll
  for (int i = 0; i < count; ++i)
    if ((undecided >> i & 1) != 0) x[i] = exact::pairs::exactly<exact::exp_undecided>(x[i]);
}

}  // namespace repdl::cuda
