// sigmoid of a whole Vec: the bits of repdl/exact/sigmoid.hpp, by pairs of floats.
#pragma once

#include "repdl/exact/pairs/sigmoid.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V sigmoid(V x) {
  return or_else<exactly<exact::sigmoid>>(x, pairs::sigmoid(value_of(x)));
}

// For a loop of two stages (row_loop.hpp).
struct SigmoidStages {
  using State = pairs::DoubleFloat<Vec>;
  [[gnu::always_inline]] static State first(Vec x) { return pairs::sigmoid_exponential(x); }
  [[gnu::always_inline]] static TestedVec second(State e, Vec x) {
    const Rounded y = pairs::sigmoid_of_exponential(x, e);
    return {y.value, y.decided};
  }
};

#else

inline Vec sigmoid(Vec x) { return each_of<exact::sigmoid>(x); }

#endif

}  // namespace repdl::cpu
