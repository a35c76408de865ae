// Launching gemm.hpp: which tile, and how many splits of k. Both are tuning: no bit depends on them.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "gemm/gemm.hpp"

namespace repdl::cuda {

// A product as it will be run.
struct GemmPlan {
  Gemm gemm;
  int tile;
  std::int64_t blocks;                    // of the grid
  std::int64_t levels_size, splits_size;  // elements of workspace

  std::int64_t work() const { return levels_size + splits_size; }
};

struct TileChoice {
  int tile, threads;
  double speed;  // of an element, on a full multiprocessor, against the largest tile
};

// The tilings of T, largest tile first. Their speeds were guessed; benchmarks/cuda_tiles.py measures them. An H200 has
// 1, 0.92, 0.71 and 1, 0.96, with which no choice was timed yet.
template <class T>
struct Tilings;
template <>
struct Tilings<float> {
  static constexpr TileChoice choices[] = {{128, 256, 1.0}, {64, 128, 0.8}, {32, 64, 0.4}};
};
template <>
struct Tilings<double> {
  static constexpr TileChoice choices[] = {{64, 256, 1.0}, {32, 64, 0.5}};
};

// f(Tiling()) for the tile
template <class T, class F>
void with_tiling(int tile, const F& f) {
  if constexpr (sizeof(T) == 4) {
    if (tile == 128) return f(Tiling<T, 128, 8, 8>());
    if (tile == 64) return f(Tiling<T, 64, 8, 4>());
  } else {
    if (tile == 64) return f(Tiling<T, 64, 4, 4>());
  }
  return f(Tiling<T, 32, 4, 4>());
}

// The tile to use, of REPDL_CUDA_TILE, or 0: the product decides. For tests, which go through all.
inline int wanted_tile() {
  const char* text = std::getenv("REPDL_CUDA_TILE");
  return text == nullptr ? 0 : std::atoi(text);
}

// Divides a product over the multiprocessors; `only_tile` of 0 lets this choose the tile,
// another one is taken, or the largest tile of T if that is smaller.
template <class T>
GemmPlan plan_gemm(const char* op, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
                   std::int64_t chunk, int only_tile, const Stream& stream) {
  constexpr std::int64_t most = 2147483647 - 256;  // an end of a tile is an int too
  if (m > most || n > most || k > most || batch > most)
    throw std::runtime_error(std::string(op) + ": the product has sizes " + std::to_string(batch) + " x " +
                             std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                             " (batch, m, n, k), expected at most " + std::to_string(most) +
                             " each; use smaller tensors");
  if (chunk == 0 || chunk > k) chunk = std::max<std::int64_t>(k, 1);
  const std::int64_t chunks = std::max<std::int64_t>(ceil_div(k, chunk), 1), processors = multiprocessors(op, stream);
  GemmPlan plan = {};
  double least = 0;
  for (const TileChoice& choice : Tilings<T>::choices) {
    if (only_tile != 0 && choice.tile != std::min(only_tile, Tilings<T>::choices[0].tile)) continue;
    const std::int64_t tiles_m = ceil_div(m, choice.tile), tiles_n = ceil_div(n, choice.tile);
    const std::int64_t tiles = tiles_m * tiles_n * batch;
    // A split has as many chunks as let every multiprocessor run some blocks.
    std::int64_t split = 1;
    while (split < chunks && (tiles >= processors || tiles * ceil_div(chunks, 2 * split) >= 4 * processors)) split *= 2;
    const std::int64_t splits = ceil_div(chunks, split), work = tiles * splits;
    // Time in tile elements times chunks of one multiprocessor.
    const double cost = static_cast<double>(ceil_div(work, processors)) * choice.tile * choice.tile *
                            static_cast<double>(std::min(split, chunks)) / choice.speed +
                        (splits > 1 ? 4096 + 0.002 * static_cast<double>(splits * m * n * batch) : 0);
    if (plan.tile != 0 && cost >= least) continue;
    least = cost;
    Gemm& gemm = plan.gemm;
    gemm.m = static_cast<int>(m), gemm.n = static_cast<int>(n), gemm.k = static_cast<int>(k);
    gemm.batch = static_cast<int>(batch), gemm.chunk = static_cast<int>(chunk);
    gemm.split_k = static_cast<int>(std::min(split * chunk, std::max<std::int64_t>(k, 1)));
    gemm.splits = static_cast<int>(splits);
    gemm.tiles_m = static_cast<int>(tiles_m), gemm.tiles_n = static_cast<int>(tiles_n);
    gemm.levels = tree_levels(std::min(split, chunks));
    if (work > most)
      throw std::runtime_error(std::string(op) + ": the product has " + std::to_string(work) +
                               " tiles, expected at most " + std::to_string(most) + "; use smaller tensors");
    gemm.work = static_cast<int>(work);
    plan.tile = choice.tile;
    plan.blocks = std::min(work, processors * (512 / choice.threads));
    plan.levels_size = plan.blocks * gemm.levels * choice.tile * choice.tile;
    plan.splits_size = splits > 1 ? splits * m * n * batch : 0;
  }
  return plan;
}

// C from several splits; nothing to do for one.
template <class C, class T>
void run_join(const char* op, const Gemm& gemm, const T* splits, const C& c, const Stream& stream) {
  if (gemm.splits == 1) return;
  int each = 1;
  while (each * join_groups < gemm.splits) each *= 2;
  const std::int64_t outputs = std::int64_t{gemm.batch} * gemm.m * gemm.n;
  launch(op, join_splits<C, T>, {ceil_div(outputs, join_outputs)}, dim3(join_outputs, join_groups), 0, stream, splits,
         c, gemm, each);
}

// Runs a plan; `work` has plan.work() elements.
template <class T, class A, class B, class C>
void run_gemm(const char* op, const GemmPlan& plan, const A& a, const B& b, const C& c, T* work, const Stream& stream) {
  T* levels = work;
  T* splits = levels + plan.levels_size;
  with_tiling<T>(plan.tile, [&](auto tiling) {
    using Tiling = decltype(tiling);
    launch(op, gemm_tiles<Tiling, A, B, C, T>, {plan.blocks}, Tiling::threads, 0, stream, a, b, c, plan.gemm, levels,
           splits);
  });
  run_join(op, plan.gemm, splits, c, stream);
}

}  // namespace repdl::cuda
