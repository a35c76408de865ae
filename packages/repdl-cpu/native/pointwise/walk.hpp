// The elements of a pointwise op, walked without knowing what is computed of them, so that this is compiled once for
// each number of operands and not for each function:
//
//   for i over the broadcast shape, n elements that follow each other at a time:
//     dense(f, x, out, n)      out[i] = f(x[0][i], x[1][i], ...), i < n
//
// An operand that does not follow itself, as one number or every second element, is copied, a block at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/routes.hpp"
#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "repdl/pointwise/pass.hpp"

namespace repdl::cpu {

// Bytes of an element that a pointwise function takes: bool, float or double.
inline std::int64_t width_of(const Tensor& t) {
  return t.dtype == DType::float64 ? sizeof(double) : t.dtype == DType::float32 ? sizeof(float) : sizeof(bool);
}

template <class T>
void gather(void* out, const char* x, std::int64_t stride, std::int64_t n) {
  T* y = static_cast<T*>(out);
  const T* first = reinterpret_cast<const T*>(x);
  if (stride == 0) return void(std::fill(y, y + n, *first));
  for (std::int64_t i = 0; i < n; ++i) y[i] = first[i * stride];
}

inline void gather(void* out, const char* x, std::int64_t stride, std::int64_t n, std::int64_t width) {
  if (width == sizeof(float)) return gather<float>(out, x, stride, n);
  if (width == sizeof(double)) return gather<double>(out, x, stride, n);
  gather<std::uint8_t>(out, x, stride, n);
}

// The elements of one thread.
template <std::size_t N>
class Walk {
 public:
  using Addresses = std::array<const char*, N>;
  using Dense = void (*)(const void* f, const Addresses& x, char* out, std::int64_t n);

  Walk(const pointwise::Pass<N>& pass, const std::array<const Tensor*, N>& operands, const Tensor& output,
       std::int64_t begin, std::int64_t end)
      : pass_(pass), operands_(operands), out_(output.as<char>()), out_width_(width_of(output)), begin_(begin),
        end_(end) {
    for (std::size_t k = 0; k < N; ++k) width_[k] = width_of(*operands[k]);
  }

  void each(Dense dense, const void* f) const {
    const std::int64_t length = pass_.inner_size();
    for (std::int64_t i = begin_; i < end_;) {
      const std::int64_t n = std::min(end_ - i, length - i % length);
      row(dense, f, i, n);
      i += n;
    }
  }

 private:
  // Element `index` of the pass, of each operand.
  Addresses at(std::int64_t index) const {
    std::int64_t offset[N] = {};
    for (int d = pass_.dims - 1; d >= 0; --d) {
      const std::int64_t i = d == 0 ? index : index % pass_.size[d];
      index = d == 0 ? 0 : index / pass_.size[d];
      for (std::size_t k = 0; k < N; ++k) offset[k] += i * pass_.stride[k][d];
    }
    Addresses x;
    for (std::size_t k = 0; k < N; ++k) x[k] = operands_[k]->template as<char>() + offset[k] * width_[k];
    return x;
  }

  void row(Dense dense, const void* f, std::int64_t index, std::int64_t n) const {
    const Addresses x = at(index);
    char* out = out_ + index * out_width_;
    std::int64_t stride[N];
    bool all_dense = true;
    for (std::size_t k = 0; k < N; ++k) {
      stride[k] = pass_.inner(k);
      all_dense = all_dense && stride[k] == 1;
    }
    if (all_dense) return dense(f, x, out, n);
    REPDL_ROUTE("pointwise: any strides", N);
    constexpr std::int64_t block = tuned(1024, 32);
    alignas(64) char copies[N][block * sizeof(double)];
    for (std::int64_t first = 0; first < n; first += block) {
      const std::int64_t length = std::min(block, n - first);
      if (first > 0) REPDL_ROUTE("pointwise: second block of copies", N);
      Addresses here;
      for (std::size_t k = 0; k < N; ++k) {
        here[k] = x[k] + first * stride[k] * width_[k];
        if (stride[k] == 1) continue;
        if (stride[k] != 0 || first == 0) gather(copies[k], here[k], stride[k], length, width_[k]);
        here[k] = copies[k];
      }
      dense(f, here, out + first * out_width_, length);
    }
  }

  const pointwise::Pass<N>& pass_;
  const std::array<const Tensor*, N>& operands_;
  char* out_;
  std::int64_t out_width_, begin_, end_;
  std::int64_t width_[N];
};

// share(walk, options) of the elements of each thread, at least `grain` of them.
template <std::size_t N>
[[gnu::noinline]] void walk(const std::array<const Tensor*, N>& operands, const Tensor& output, const ExecContext& exec,
                            std::int64_t grain, void (*share)(const Walk<N>& walk, const void* options),
                            const void* options) {
  const pointwise::Pass<N> pass(exec.op, output, operands);
  parallel_for(pass.count, grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    share(Walk<N>(pass, operands, output, begin, end), options);
  });
}

}  // namespace repdl::cpu
