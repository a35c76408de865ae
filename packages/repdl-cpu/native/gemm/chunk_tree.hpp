// The tree of the contract over the chunks of N vectors of outputs at once.
#pragma once

#include "repdl/contract/order.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

template <int N>
struct Vecs {
  Vec at[N];

  [[gnu::always_inline]] Vec& operator[](int i) { return at[i]; }
  [[gnu::always_inline]] void clear() {
    for (Vec& x : at) x = Vec::zero();
  }
};

template <int N>
[[gnu::always_inline]] inline Vecs<N> operator+(Vecs<N> a, const Vecs<N>& b) {
  for (int i = 0; i < N; ++i) a.at[i] = a.at[i] + b.at[i];
  return a;
}

template <int N>
using ChunkTree = Tree<Vecs<N>, 40>;

}  // namespace repdl::cpu
