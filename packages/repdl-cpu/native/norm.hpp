// What the norms over rows share (layer_norm.md, rms_norm.md, group_norm.md):
//
//   RowMoments, scale_row, gradient_row  one row of layer_norm or group_norm
//   ColumnSums(rows, width, ...)  sums over the rows, while each row is visited once
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "simd.hpp"
#include "sum.hpp"
#include "sweep.hpp"
#include "threads.hpp"

namespace repdl::cpu {

// Stores past the caches where `past_caches`, which saves reading the line first: for large
// outputs, of which the caches would keep little. p is aligned to a whole vector then.
inline void put(Whole, float* p, Vec x, bool past_caches) {
#if defined(__AVX512F__)
  if (past_caches) return _mm512_stream_ps(p, x.v);
#elif defined(__AVX2__) && defined(__FMA__)
  if (past_caches) return _mm256_stream_ps(p, x.v);
#elif defined(__SSE2__)
  if (past_caches) return _mm_stream_ps(p, x.v);
#endif
  x.store(p);
}

inline void put(Part part, float* p, Vec x, bool) { part.store(p, x); }

// Whether rows of n elements at `out` go past the caches.
inline bool past_caches(const float* out, std::int64_t rows, std::int64_t n) {
  return rows * n >= (std::int64_t{1} << 21) && n % 16 == 0 && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
}

// After such stores, before another thread reads.
inline void put_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Asks for the memory of the next row while this one is worked on: rows are in other pages,
// where the processor's own prefetcher does not go.
inline void prefetch(const float* p) { __builtin_prefetch(p); }

struct Moments {
  float mean, rstd;
};

// The moments of row after row: `next` is the row of the following call, whose sum is taken
// in the same pass as the variance of this one, so that memory is always at work.
class RowMoments {
 public:
  RowMoments(const float* first, std::int64_t n, double eps, const Contract& contract)
      : n_(n), count_(static_cast<float>(n)), epsilon_(static_cast<float>(eps)), contract_(contract) {
    sum_ = sum_each(n, contract, [=](std::int64_t i, auto part) { return part.load(first + i); });
  }

  Moments operator()(const float* x, const float* next) {
    const float mean = sum_ / count_;
    const std::array<float, 2> sums = sums_each<2>(n_, contract_, [=](std::int64_t i, auto part) {
      const Vec d = part.load(x + i) - Vec::set1(mean);
      return std::array<Vec, 2>{d * d, part.load(next + i)};
    });
    sum_ = sums[1];
    return {mean, 1.0f / std::sqrt(sums[0] / count_ + epsilon_)};
  }

 private:
  std::int64_t n_;
  // Made in a part of a parallel_for, which rounds to nearest whatever the caller has set.
  float count_, epsilon_, sum_;
  const Contract& contract_;
};

// The weight or bias of elements: one of each, one for all, or none.
struct Each {
  const float* p;
  template <class P>
  Vec at(std::int64_t i, P part) const {
    return part.load(p + i);
  }
};

struct Same {
  float value;
  template <class P>
  Vec at(std::int64_t, P) const {
    return Vec::set1(value);
  }
};

struct None {};

// Calls body with factor(vector), or with None where there is no vector.
template <class Factor, class Body>
void with_factor(const float* vector, const Factor& factor, const Body& body) {
  if (vector)
    body(factor(vector));
  else
    body(None{});
}

// y = (x - mean) * rstd * weight + bias, with weight and bias or without.
template <class Weight, class Bias>
void scale_row(const float* x, Moments m, Weight weight, Bias bias, float* y, std::int64_t n, bool past) {
  constexpr bool weighted = !std::is_same_v<Weight, None>, biased = !std::is_same_v<Bias, None>;
  sweep(n, [=](std::int64_t i, auto part) {
    const Vec h = (part.load(x + i) - Vec::set1(m.mean)) * Vec::set1(m.rstd);
    if constexpr (weighted && biased)
      put(part, y + i, canonical(fma(h, weight.at(i, part), bias.at(i, part))), past);
    else if constexpr (weighted)
      put(part, y + i, canonical(h * weight.at(i, part)), past);
    else if constexpr (biased)
      put(part, y + i, canonical(h + bias.at(i, part)), past);
    else
      put(part, y + i, canonical(h), past);
  });
}

// grad_input of one row to out; each(i, part, grad, h) sees the elements once more. next_g and
// next_x are the rows that come then.
template <class Weighted, class Each>
void gradient_row(const float* g, const float* x, Moments m, const float* weight, float* out, std::int64_t n,
                  const Contract& contract, const float* next_g, const float* next_x, bool past, Weighted, const Each& each) {
  const auto weighted = [=](std::int64_t i, auto part, Vec grad) {
    if constexpr (Weighted::value)
      return grad * part.load(weight + i);
    else
      return grad;
  };
  const std::array<float, 2> sums = sums_each<2>(n, contract, [=](std::int64_t i, auto part) {
    prefetch(next_g + i);
    prefetch(next_x + i);
    const Vec w = weighted(i, part, part.load(g + i));
    return std::array<Vec, 2>{w, w * ((part.load(x + i) - Vec::set1(m.mean)) * Vec::set1(m.rstd))};
  });
  const float count = static_cast<float>(n), a = sums[0] / count, b = -(sums[1] / count);
  sweep(n, [=](std::int64_t i, auto part) {
    const Vec grad = part.load(g + i), h = (part.load(x + i) - Vec::set1(m.mean)) * Vec::set1(m.rstd);
    // h * -b and -h * b are the same number.
    put(part, out + i, canonical(Vec::set1(m.rstd) * fma(h, Vec::set1(b), weighted(i, part, grad) - Vec::set1(a))), past);
    each(i, part, grad, h);
  });
}

// The contract's sums over `rows` of `width` columns at once, row by row: visit(row,
// next, lane) adds the row's elements to lane[0 .. width), once for each row, in any order of
// rows; `next` is the row that this thread most likely visits then.
//
// A row belongs to one lane of one block, and lanes fold by halves: lane j with j + lanes/2,
// the two with j + lanes/4, and so on. So the lanes j, j + step, j + 2 * step ... make up a
// subtree, and visiting lane after lane of it needs only a few accumulators, which stay in
// cache. A cluster of neighbouring lanes goes together, so that rows are read in short
// stretches of memory. Threads take whole clusters of blocks.
class ColumnSums {
 public:
  ColumnSums(std::int64_t rows, std::int64_t width, const Contract& contract)
      : rows_(rows), width_(width), lanes_(contract.sum_lanes), block_(sum_block_of(contract, rows)),
        parts_(std::min<std::int64_t>(lanes_, 16)), blocks_((rows + block_ - 1) / block_),
        partial_(new float[std::max<std::int64_t>(1, blocks_ * parts_) * width]) {
    if (rows == 0) std::fill_n(partial_.get(), width, 0.0f);
  }

  // The sums, valid until the object goes.
  template <class Visit>
  const float* run(int threads, const Visit& visit) {
    for (cluster_ = parts_; cluster_ > 1 && blocks_ * (parts_ / cluster_) < threads;) cluster_ /= 2;
    const std::int64_t tasks = parts_ / cluster_;  // of a block
    const std::int64_t part_rows = std::max<std::int64_t>(1, std::min(block_, rows_) / parts_ * cluster_);
    const std::int64_t grain = std::max<std::int64_t>(1, (1 << 13) / (part_rows * width_ + 1));
    const std::int64_t levels = tree_levels(lanes_ / parts_);
    parallel_for(blocks_ * tasks, grain, threads, [&](std::int64_t begin, std::int64_t end) {
      const std::unique_ptr<float[]> right(new float[levels * cluster_ * width_]);
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t first = task % tasks * cluster_, after = (first + cluster_) % parts_;
        subtree(task / tasks * block_, first, parts_, after, partial(task * cluster_), right.get(), visit);
      }
      put_fence();
    });
    parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
      for (std::int64_t b = 0; b < blocks_; ++b)
        for (std::int64_t half = parts_ / 2; half >= 1; half /= 2)
          for (std::int64_t j = 0; j < half; ++j) add(partial(b * parts_ + j), partial(b * parts_ + j + half), width_);
      join(0, blocks_);
    });
    return partial_.get();
  }

 private:
  float* partial(std::int64_t task) { return partial_.get() + task * width_; }

  static void add(float* left, const float* right, std::int64_t n) {
    for (std::int64_t c = 0; c < n; ++c) left[c] = left[c] + right[c];
  }

  // sum = the folded lanes first, first + step, first + 2 * step ... of the block at `start`,
  // and beside it those of the other lanes of the cluster, first + 1 and so on; `after` is
  // the lane that comes then.
  template <class Visit>
  void subtree(std::int64_t start, std::int64_t first, std::int64_t step, std::int64_t after, float* sum,
               float* right, const Visit& visit) const {
    const std::int64_t count = std::min(block_, rows_ - start);
    if (step == lanes_) {
      std::fill(sum, sum + cluster_ * width_, 0.0f);
      for (std::int64_t i = first; i < count; i += lanes_) {
        const std::int64_t end = std::min(cluster_, count - i), later = i + lanes_ < count ? i + lanes_ : after;
        for (std::int64_t c = 0; c < end; ++c) {
          const std::int64_t next = c + 1 < end ? i + c + 1 : later;
          visit(start + i + c, start + (next < count ? next : i + c), sum + c * width_);
        }
      }
      return;
    }
    const bool both = first + step < count;  // lanes without elements are +0: no change
    subtree(start, first, 2 * step, both ? first + step : after, sum, right, visit);
    if (!both) return;
    subtree(start, first + step, 2 * step, after, right, right + cluster_ * width_, visit);
    add(sum, right, cluster_ * width_);
  }

  // The tree over n blocks, into the first of them.
  void join(std::int64_t first, std::int64_t n) {
    if (n < 2) return;
    const std::int64_t half = std::int64_t{1} << (tree_levels(n) - 1);
    join(first, half);
    join(first + half, n - half);
    add(partial(first * parts_), partial((first + half) * parts_), width_);
  }

  std::int64_t rows_, width_, lanes_, block_, parts_, blocks_, cluster_ = 1;
  std::unique_ptr<float[]> partial_;  // (blocks, parts, width)
};

// Rows worth a thread.
inline std::int64_t norm_grain(std::int64_t n) { return std::max<std::int64_t>(1, (1 << 13) / (n + 1)); }

}  // namespace repdl::cpu
