// The elements of a pointwise op, walked without knowing what is computed of them, so that this is compiled once for
// each number of operands and not for each function:
//
//   for i over the broadcast shape, n elements that follow each other at a time:
//     dense(f, x, out, n)      out[i] = f(x[0][i], x[1][i], ...), i < n
//
// An operand that does not follow itself, as one number or every second element, is copied, a block at a time. Where
// rows are short, a block is several of them.
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

// `rows` rows of n, which lie row_stride apart, one behind the other. Fewer than `repeats` elements more are written.
constexpr std::int64_t repeats = 16;
template <class T>
void gather_rows(char* out, const char* x, std::int64_t row_stride, std::int64_t stride, std::int64_t rows,
                 std::int64_t n) {
  T* y = reinterpret_cast<T*>(out);
  const T* first = reinterpret_cast<const T*>(x);
  for (; rows > 0; --rows, y += n, first += row_stride) {
    if (stride == 0)
      for (std::int64_t i = 0; i < n; i += repeats) std::fill(y + i, y + i + repeats, *first);
    else
      for (std::int64_t c = 0; c < n; ++c) y[c] = first[c * stride];
  }
}

// `f` of an element of so many bytes.
template <class F>
void for_width(std::int64_t width, const F& f) {
  if (width == sizeof(float)) return f(float());
  if (width == sizeof(double)) return f(double());
  f(std::uint8_t());
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
      const std::int64_t count = i % length == 0 && length <= short_row ? (end_ - i) / length : 0;
      const std::int64_t n = count > 1 ? count * length : std::min(end_ - i, length - i % length);
      if (count > 1)
        rows(dense, f, i, count);
      else
        row(dense, f, i, n);
      i += n;
    }
  }

 private:
  static constexpr std::int64_t block = tuned(1024, 32), short_row = tuned(256, 8);  // elements

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
    alignas(64) char copies[N][block * sizeof(double)];
    for (std::int64_t first = 0; first < n; first += block) {
      const std::int64_t length = std::min(block, n - first);
      if (first > 0) REPDL_ROUTE("pointwise: second block of copies", N);
      Addresses here;
      for (std::size_t k = 0; k < N; ++k) {
        here[k] = x[k] + first * stride[k] * width_[k];
        if (stride[k] == 1) continue;
        if (stride[k] != 0 || first == 0)
          for_width(width_[k], [&](auto element) { gather<decltype(element)>(copies[k], here[k], stride[k], length); });
        here[k] = copies[k];
      }
      dense(f, here, out + first * out_width_, length);
    }
  }

  // How the elements of an operand lie: each behind the last one, the same ones in every row, or otherwise.
  enum class Lies { dense, repeated, elsewhere };

  Lies lies(std::size_t k) const {
    bool dense = true, repeated = true;
    std::int64_t next = 1;
    for (int d = pass_.dims - 1; d >= 0; --d) {
      dense = dense && pass_.stride[k][d] == next;
      repeated = repeated && (d == pass_.dims - 1 || pass_.stride[k][d] == 0);
      next *= pass_.size[d];
    }
    return dense ? Lies::dense : repeated ? Lies::repeated : Lies::elsewhere;
  }

  // `count` whole rows from element `index` on, which is the first of one.
  void rows(Dense dense, const void* f, std::int64_t index, std::int64_t count) const {
    REPDL_ROUTE("pointwise: several rows", N);
    const std::int64_t length = pass_.inner_size(), most = block / length;
    const Addresses first = at(index);
    Lies how[N];
    for (std::size_t k = 0; k < N; ++k) how[k] = lies(k);
    const bool moves = std::find(how, how + N, Lies::elsewhere) != how + N;
    std::int64_t place[pointwise::Pass<N>::most] = {};  // of a row, in the dimensions outside of it
    for (std::int64_t d = pass_.dims - 2, rest = index / length; d >= 0; rest /= pass_.size[d--])
      place[d] = rest % pass_.size[d];
    alignas(64) char copies[N][(block + repeats) * sizeof(double)];
    Addresses row = first, here;
    for (std::int64_t done = 0; done < count; done += most) {
      const std::int64_t n = std::min(most, count - done);
      if (done > 0) REPDL_ROUTE("pointwise: second block of rows", N);
      for (std::int64_t r = 0; (moves || done == 0) && r < n;) {
        const int last = pass_.dims - 2;
        const std::int64_t run = std::min(n - r, pass_.size[last] - place[last]);
        for (std::size_t k = 0; k < N; ++k)
          if (how[k] == Lies::elsewhere || (how[k] == Lies::repeated && done == 0))
            for_width(width_[k], [&](auto element) {
              gather_rows<decltype(element)>(copies[k] + r * length * width_[k], row[k], pass_.stride[k][last],
                                             pass_.stride[k][last + 1], run, length);
            });
        advance(run, place, row);
        r += run;
      }
      for (std::size_t k = 0; k < N; ++k)
        here[k] = how[k] == Lies::dense ? first[k] + done * length * width_[k] : copies[k];
      dense(f, here, out_ + (index + done * length) * out_width_, n * length);
    }
  }

  // To the row that is `run` further, at most the first of the next ones.
  void advance(std::int64_t run, std::int64_t* place, Addresses& row) const {
    for (int d = pass_.dims - 2; d >= 0; --d, run = 1) {
      place[d] += run;
      for (std::size_t k = 0; k < N; ++k) row[k] += run * pass_.stride[k][d] * width_[k];
      if (place[d] < pass_.size[d]) return;
      place[d] = 0;
      for (std::size_t k = 0; k < N; ++k) row[k] -= pass_.size[d] * pass_.stride[k][d] * width_[k];
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
