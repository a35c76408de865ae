// A function of a recurrent cell (repdl/cell/cells.hpp) on some elements of a row, for kernels that have it in a loop.
#pragma once

#include <array>

#include "exact/sigmoid_vec.hpp"
#include "exact/tanh_vec.hpp"
#include "repdl/cell/cells.hpp"
#include "simd/row_loop.hpp"
#include "exact/double_vec.hpp"
#include "simd/row_loop_double.hpp"
#include "simd/vectors.hpp"

namespace repdl::cpu {

// Value v of element e, of an input at in[v][e], of an output at out[v][e]; an output may be an input.
template <class F>
struct CellRow;
template <template <class> class F, class T>
struct CellRow<F<T>> {
  std::array<const T*, cell::total(F<T>::inputs)> in;
  std::array<T*, cell::total(F<T>::outputs)> out;
};

template <template <class> class F>
void cell_row(const CellRow<F<double>>& row, std::int64_t n) {
  constexpr int inputs = cell::total(F<double>::inputs), outputs = cell::total(F<double>::outputs);
  const auto in = row.in;
  const auto out = row.out;
  row_loop_double(n, [=](std::int64_t i, auto part) {
    using T = decltype(part.load(in[0]));
    T x[inputs], made[outputs];
    for (int v = 0; v < inputs; ++v) x[v] = part.load(in[v] + i);
    F<T>()(x, made);
    for (int v = 0; v < outputs; ++v) part.store(out[v] + i, canonical(made[v]));
  });
}

template <template <class> class F>
void cell_row(const CellRow<F<float>>& row, std::int64_t n) {
  constexpr int inputs = cell::total(F<float>::inputs), outputs = cell::total(F<float>::outputs);
  const auto in = row.in;
  const auto out = row.out;
  const auto one = [=](std::int64_t i, auto part) __attribute__((always_inline)) {
    Vec x[inputs], y[outputs];
    for (int v = 0; v < inputs; ++v) x[v] = part.load(in[v] + i);
    F<Vec>()(x, y);
    for (int v = 0; v < outputs; ++v) part.store(out[v] + i, canonical(y[v]));
  };
  if constexpr (std::is_same_v<TestedVecs, Vec>) {
    row_loop(n, one);
  } else {
    const auto both = [=](std::int64_t i, NoState) __attribute__((always_inline)) {
      TestedVecs x[2][inputs], y[2][outputs];
      bool decided = true;
      for (int k = 0; k < 2; ++k) {
        for (int v = 0; v < inputs; ++v) x[k][v] = tested(Vec::load(in[v] + i + k * Vec::width));
        F<TestedVecs>()(x[k], y[k]);
        for (int v = 0; v < outputs; ++v) decided &= all(y[k][v].decided);
      }
      if (!decided) return false;
      for (int k = 0; k < 2; ++k)
        for (int v = 0; v < outputs; ++v) canonical(y[k][v].value).store(out[v] + i + k * Vec::width);
      return true;
    };
    const auto apart = [=](const std::int64_t* at, int count) __attribute__((noinline, cold)) {
      for (int k = 0; k < count; ++k) one(at[k], FullVector{}), one(at[k] + Vec::width, FullVector{});
    };
    row_loop(n, [](std::int64_t) { return NoState(); }, both, apart, one);
  }
}

}  // namespace repdl::cpu
