// What the norms over rows share (layer_norm.md, rms_norm.md, group_norm.md):
//
//   row_moments, scale_row, gradient_rows  rows of layer_norm or group_norm
//   ColumnSums(rows, width, ...)  sums over the rows, while each row is visited once
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/prefetch.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "simd/simd.hpp"
#include "reduce/sum.hpp"
#include "reduce/row_sum.hpp"
#include "simd/row_loop.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {

// Stores past the caches where `past_caches`, which saves reading the line first: for large
// outputs, of which the caches would keep little. p is aligned to a whole vector then.
inline void put(FullVector, float* p, Vec x, [[maybe_unused]] bool past_caches) {
  if (past_caches) REPDL_ROUTE("norm: past the caches");
#if defined(__AVX512F__)
  if (past_caches) return _mm512_stream_ps(p, x.v);
#elif defined(__AVX2__) && defined(__FMA__)
  if (past_caches) return _mm256_stream_ps(p, x.v);
#elif defined(__SSE2__)
  if (past_caches) return _mm_stream_ps(p, x.v);
#endif
  x.store(p);
}

inline void put(MaskedTail part, float* p, Vec x, bool) { part.store(p, x); }

// Whether rows of n elements at `out` go past the caches.
inline bool past_caches(const float* out, std::int64_t rows, std::int64_t n) {
  return rows * n >= tuned(1 << 21, 64) && n % 16 == 0 && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
}

// After such stores, before another thread reads.
inline void put_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

struct Moments {
  float mean, rstd;
};

// The moments of one row; prefetches `ahead` elements further.
inline Moments row_moments(const float* x, std::int64_t n, double eps, const Contract& contract, std::int64_t ahead) {
  // Converted within a parallel_for, which rounds to nearest whatever the caller has set.
  const float count = static_cast<float>(n), epsilon = static_cast<float>(eps);
  const float mean = sum_each(n, contract, [=](std::int64_t i, auto part) { return part.load(x + i); }) / count;
  const float squares = sum_each(n, contract, [=](std::int64_t i, auto part) {
    prefetch(x + i, ahead);
    const Vec d = part.load(x + i) - Vec::set1(mean);
    return d * d;
  });
  return {mean, 1.0f / std::sqrt(squares / count + epsilon)};
}

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
  row_loop(n, [=](std::int64_t i, auto part) {
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

// What the gradient of a row is made of; `step` elements further lies another row.
struct GradientRow {
  const float *grad, *x, *weight;
  float* out;
  std::int64_t step;
};

// grad_input of R rows; each(i, part, grad, h) sees the elements of all of them once more.
// Prefetches `ahead` elements further.
template <int R, class Weighted, class Each>
void gradient_rows(const GradientRow& row, const std::array<Moments, R>& moments, std::int64_t n,
                   const Contract& contract, std::int64_t ahead, bool past, Weighted, const Each& each) {
  const auto [grad, x, weight, out, step] = row;
  const auto weighted = [=](std::int64_t i, auto part, Vec g) {
    if constexpr (Weighted::value)
      return g * part.load(row.weight + i);
    else
      return g;
  };
  std::array<Vec, R> mean, rstd, a, b;
  for (int r = 0; r < R; ++r) {
    const Vec m = mean[r] = Vec::set1(moments[r].mean), s = rstd[r] = Vec::set1(moments[r].rstd);
    const float *g_row = grad + r * step, *x_row = x + r * step;
    const std::array<float, 2> sums = sums_each<2>(n, contract, [=](std::int64_t i, auto part) {
      const Vec w = weighted(i, part, part.load(g_row + i));
      return std::array<Vec, 2>{w, w * ((part.load(x_row + i) - m) * s)};
    });
    const float count = static_cast<float>(n);
    a[r] = Vec::set1(sums[0] / count);
    b[r] = Vec::set1(-(sums[1] / count));
  }
  // V vectors from i on: of each row a whole line of the cache, so that stores past the caches fill it at once.
  const auto vectors = [=, grad = grad, x = x, out = out, step = step](auto count, std::int64_t i, auto part) {
    constexpr int V = decltype(count)::value, W = Vec::width;
    std::array<std::array<Vec, R>, V> g, h;
    for (int r = 0; r < R; ++r) {
      prefetch(grad + r * step + i, ahead);
      prefetch(x + r * step + i, ahead);
      for (int v = 0; v < V; ++v) {
        const std::int64_t at = r * step + i + v * W;
        g[v][r] = part.load(grad + at);
        h[v][r] = (part.load(x + at) - mean[r]) * rstd[r];
        // h * -b and -h * b are the same number.
        const Vec w = weighted(i + v * W, part, g[v][r]);
        put(part, out + at, canonical(rstd[r] * fma(h[v][r], b[r], w - a[r])), past);
      }
    }
    for (int v = 0; v < V; ++v) each(i + v * W, part, g[v], h[v]);
  };
  constexpr int line = 16;  // floats
  const std::int64_t whole = n / line * line;
  for (std::int64_t i = 0; i < whole; i += line)
    vectors(std::integral_constant<int, line / Vec::width>{}, i, FullVector{});
  row_loop(n - whole, [&](std::int64_t i, auto part) { vectors(std::integral_constant<int, 1>{}, whole + i, part); });
}

// The contract's sums over `rows` of `width` columns at once, while each row is visited once:
// visit(Rows<R>, row, next, lane) adds the elements of the R rows row, row + sum_lanes, ... to
// lane[0 .. width), in this order. This thread most likely visits those `next` rows further then,
// which the visit should prefetch; 0 for nothing to prefetch.
// Several rows at once spare most of the loads and stores of lane.
//
// A row belongs to one lane of one block, and lanes fold by halves: lane j with j + lanes/2,
// the two with j + lanes/4, and so on. So the lanes j, j + step, j + 2 * step ... make up a
// subtree, and visiting lane after lane of it needs only a few accumulators, which stay in
// cache. A cluster of neighbouring lanes goes together, so that a few neighbouring
// rows are read at a time. Threads take whole clusters of blocks.
template <int R>
using Rows = std::integral_constant<int, R>;

class ColumnSums {
 public:
  ColumnSums(std::int64_t rows, std::int64_t width, const Contract& contract)
      : rows_(rows), width_(width), lanes_(contract.sum_lanes), block_(sum_block_of(contract, rows)),
        subtrees_(subtrees_of(rows, lanes_)), blocks_((rows + block_ - 1) / block_),
        partial_(new float[std::max<std::int64_t>(1, blocks_ * subtrees_) * width]) {
    if (rows == 0) std::fill_n(partial_.get(), width, 0.0f);
  }

  // The sums, valid until the object goes.
  template <class Visit>
  const float* run(int threads, const Visit& visit) {
    for (cluster_ = subtrees_; cluster_ > 1 && blocks_ * (subtrees_ / cluster_) < threads;) cluster_ /= 2;
    const std::int64_t tasks = subtrees_ / cluster_;  // of a block
    const std::int64_t cluster_rows = std::max<std::int64_t>(1, std::min(block_, rows_) / subtrees_ * cluster_);
    const std::int64_t grain = std::max<std::int64_t>(1, (1 << 13) / (cluster_rows * width_ + 1));
    const std::int64_t levels = tree_levels(lanes_ / subtrees_);
    parallel_for(blocks_ * tasks, grain, threads, [&](std::int64_t begin, std::int64_t end) {
      const std::unique_ptr<float[]> right(new float[levels * cluster_ * width_]);
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t first = task % tasks * cluster_;
        subtree(task / tasks * block_, first, subtrees_, partial(task * cluster_), right.get(), visit);
      }
      put_fence();
    });
    parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
      for (std::int64_t b = 0; b < blocks_; ++b)
        fold_lanes(subtrees_, [&](std::int64_t half) {
          for (std::int64_t j = 0; j < half; ++j)
            add(partial(b * subtrees_ + j), partial(b * subtrees_ + j + half), width_);
        });
      if (blocks_ > 1) REPDL_ROUTE("norm: several blocks of rows");
      tree_in_place(blocks_, [&](std::int64_t i, std::int64_t j) {
        add(partial(i * subtrees_), partial(j * subtrees_), width_);
      });
    });
    return partial_.get();
  }

 private:
  // Any power of two gives the same bits: not more than the lanes that have rows need.
  static std::int64_t subtrees_of(std::int64_t rows, std::int64_t lanes) {
    std::int64_t count = 1;
    while (count < std::min<std::int64_t>({rows, lanes, 16})) count *= 2;
    return count;
  }

  float* partial(std::int64_t task) { return partial_.get() + task * width_; }

  static void add(float* left, const float* right, std::int64_t n) {
    for (std::int64_t c = 0; c < n; ++c) left[c] = left[c] + right[c];
  }

  std::int64_t next(std::int64_t row, std::int64_t end) const {
    return row + 1 < end && prefetch_distance(width_, rows_) != 0 ? 1 : 0;
  }

  // sum = the folded lanes first, first + step, first + 2 * step ... of the block at `start`,
  // and beside it those of the other lanes of the cluster, first + 1 and so on.
  template <class Visit>
  void subtree(std::int64_t start, std::int64_t first, std::int64_t step, float* sum, float* right,
               const Visit& visit) const {
    const std::int64_t count = std::min(block_, rows_ - start);
    if (step == lanes_) {
      std::fill(sum, sum + cluster_ * width_, 0.0f);
      constexpr int several = 4;
      for (std::int64_t i = first; i < count; i += several * lanes_)
        for (std::int64_t c = 0; c < cluster_; ++c) {
          const std::int64_t row = start + i + c, last = row + (several - 1) * lanes_, end = start + count;
          if (last < end) REPDL_ROUTE("norm: several rows of a lane");
          if (last < end)
            visit(Rows<several>{}, row, next(last, end), sum + c * width_);
          else
            for (std::int64_t r = row; r < end; r += lanes_) visit(Rows<1>{}, r, next(r, end), sum + c * width_);
        }
      return;
    }
    subtree(start, first, 2 * step, sum, right, visit);
    if (first + step >= count) return;  // lanes without elements are +0: no change
    REPDL_ROUTE("norm: right subtree of lanes");
    subtree(start, first + step, 2 * step, right, right + cluster_ * width_, visit);
    add(sum, right, cluster_ * width_);
  }

  std::int64_t rows_, width_, lanes_, block_, subtrees_, blocks_, cluster_ = 1;
  std::unique_ptr<float[]> partial_;  // (blocks, subtrees, width)
};

// A visit that takes the rows one at a time: visit(row, next, lane).
template <class Visit>
auto row_by_row(const Contract& contract, const Visit& visit) {
  return [&, lanes = contract.sum_lanes](auto rows, std::int64_t row, std::int64_t next, float* lane) {
    for (int r = 0; r < rows; ++r) visit(row + r * lanes, next, lane);
  };
}

// Rows worth a thread.
inline std::int64_t norm_grain(std::int64_t n) { return std::max<std::int64_t>(1, (1 << 13) / (n + 1)); }

}  // namespace repdl::cpu
