// Elementwise passes over strided operands: out contiguous, everything else as it lies.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "base/bind.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "base/routes.hpp"
#include "simd/row_loop.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {

// The shape of a pass with N operands: dimensions of size 1 dropped, neighbours joined
// where every operand allows it, so that most passes have one dimension.
template <std::size_t N>
struct Passes {
  using Strides = std::array<std::int64_t, N>;
  std::vector<std::int64_t> size;
  std::vector<Strides> stride;
  std::int64_t count = 1;

  Passes(const Sizes& sizes, const std::array<Sizes, N>& strides) {
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      count *= sizes[d];
      if (sizes[d] == 1) continue;
      Strides here;
      for (std::size_t k = 0; k < N; ++k) here[k] = strides[k][d];
      bool joins = !size.empty();
      for (std::size_t k = 0; joins && k < N; ++k) joins = stride.back()[k] == here[k] * sizes[d];
      if (joins) {
        size.back() *= sizes[d];
        stride.back() = here;
      } else {
        size.push_back(sizes[d]);
        stride.push_back(here);
      }
    }
    if (size.empty()) {
      size.push_back(1);
      stride.push_back(Strides{});
    }
  }

  Strides offsets(std::int64_t index) const {
    Strides result{};
    for (std::size_t d = size.size(); d-- > 0;) {
      const std::int64_t i = d == 0 ? index : index % size[d];
      index = d == 0 ? 0 : index / size[d];
      for (std::size_t k = 0; k < N; ++k) result[k] += i * stride[d][k];
    }
    return result;
  }
};

// out[i] = f(x[i], ...) for n elements; unit strides and repeated scalars become vector loops.
// An f that also takes a Vec is an exact function: its NaN is the one NaN.
template <class T, class F>
void elements(const F& f, T* out, std::int64_t n, const std::array<const T*, 1>& x,
              const std::array<std::int64_t, 1>& s) {
  const T* a = x[0];
  if constexpr (std::is_same_v<T, float> && std::is_invocable_v<F, Vec>)
    if (s[0] == 1)
      return row_loop(n, [&](std::int64_t i, auto part)
                             __attribute__((always_inline)) { part.store(out + i, f(part.load(a + i))); });
  if (s[0] == 1)
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(a[i]));
  else
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(a[i * s[0]]));
}

template <class T, class F>
void elements(const F& f, T* out, std::int64_t n, const std::array<const T*, 2>& x,
              const std::array<std::int64_t, 2>& s) {
  const T *a = x[0], *b = x[1];
  if (s[0] == 1 && s[1] == 1) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(a[i], b[i]));
  } else if (s[0] == 1 && s[1] == 0) {
    REPDL_ROUTE("elementwise: one second operand", sizeof(T));
    const T y = b[0];
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(a[i], y));
  } else if (s[0] == 0 && s[1] == 1) {
    REPDL_ROUTE("elementwise: one first operand", sizeof(T));
    const T y = a[0];
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(y, b[i]));
  } else {
    REPDL_ROUTE("elementwise: any strides", sizeof(T));
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(a[i * s[0]], b[i * s[1]]));
  }
}

template <class T, class F>
void elements(const F& f, T* out, std::int64_t n, const std::array<const T*, 3>& x,
              const std::array<std::int64_t, 3>& s) {
  const T *a = x[0], *b = x[1], *c = x[2];
  if (s[0] == 1 && s[1] == 1 && s[2] == 1)
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(a[i], b[i], c[i]));
  else
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(a[i * s[0]], b[i * s[1]], c[i * s[2]]));
}

// The whole pass; `grain` is the number of elements worth a thread.
template <std::size_t N, class T, class F>
void elementwise(const F& f, const std::array<const T*, N>& x, T* out, const Passes<N>& passes, std::int64_t grain,
                 int threads) {
  const std::int64_t run = passes.size.back();
  parallel_for(passes.count, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t count = std::min(end - begin, run - begin % run);
      const auto offset = passes.offsets(begin);
      std::array<const T*, N> at;
      for (std::size_t k = 0; k < N; ++k) at[k] = x[k] + offset[k];
      elements(f, out + begin, count, at, passes.stride.back());
      begin += count;
    }
  });
}

}  // namespace repdl::cpu
