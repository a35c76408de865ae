// What functions of the shared headers need on vectors (repdl/pointwise/function.hpp): constants and products.
//
//   TestedVecs   two of these at a time, for which there are registers; Vec where a target has none
#pragma once

#include "repdl/pointwise/function.hpp"
#include "simd/mask_double.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::pointwise {

template <>
struct Constant<cpu::Vec> {
  static cpu::Vec of(double value) { return cpu::Vec::set1(static_cast<float>(value)); }
};

template <>
struct Constant<cpu::Vec64> {
  static cpu::Vec64 of(double value) { return cpu::Vec64::set1(value); }
};

#if defined(__AVX512F__)
template <>
struct Constant<cpu::TestedVec> {
  static cpu::TestedVec of(double value) { return cpu::tested(Constant<cpu::Vec>::of(value)); }
};
#endif

}  // namespace repdl::pointwise

namespace repdl::cpu {

[[gnu::always_inline]] inline Vec mul(Vec a, Vec b) { return a * b; }

#if defined(__AVX512F__)
[[gnu::always_inline]] inline TestedVec mul(TestedVec a, TestedVec b) { return a * b; }

using TestedVecs = TestedVec;  // two at a time, for which there are registers
#else
using TestedVecs = Vec;  // none
#endif

// A function that has no first stage (row_loop.hpp).
struct NoState {};

template <class F>
struct OneStage {
  using State = NoState;
  F f;

  template <class... T>
  [[gnu::always_inline]] State first(T...) const {
    return {};
  }
  template <class... T>
  [[gnu::always_inline]] auto second(State, T... x) const {
    return f(tested(x)...);
  }
};

}  // namespace repdl::cpu
