// A small kernel with everything that large ones have: asynchronous copies, barriers, a tail of k, shuffles.
// test_planted.py breaks it, one line at a time.
#include <cuda_pipeline_primitives.h>

#include "check.hpp"
#include "repdl/contract/arithmetic.hpp"

using namespace check;
using repdl::cuda::shared;

namespace {

constexpr int tile = 32;

struct Tile {
  float b[tile];
};

// y[row] = the chain of fused multiply-adds of a[row, :] and b, to which lane 0 adds that of its neighbour.
__global__ void chain(const float* a, const float* b, float* y, int k) {
  auto& shared_b = shared<Tile>().b;
  const int me = threadIdx.x, row = static_cast<unsigned>(blockIdx.x) * tile + me;
  float sum = 0.0f;
  for (int first = 0; first < k; first += tile) {
    const int count = k - first < tile ? k - first : tile;
    if (me < count) __pipeline_memcpy_async(&shared_b[me], &b[first + me], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();  // the tile is there
    for (int i = 0; i < count; ++i) sum = repdl::fma(a[row * k + first + i], shared_b[i], sum);
    __syncthreads();  // the tile has been read
  }
  const float neighbour = __shfl_down_sync(0xffffffffu, sum, 1);
  y[row] = repdl::canonical(me == 0 ? sum + neighbour : sum);
}

// The same bits by a plain loop, with products that underflow to -0 in some chains.
void compare() {
  constexpr int rows = 2 * tile;
  for (const int k : {1, 31, 32, 50, 97}) {
    std::vector<float> a(rows * k), b(k), y(rows), expected(rows);
    for (int i = 0; i < rows * k; ++i) a[i] = i / k % 4 == 3 ? -1e-30f : 0.1f * static_cast<float>(i % 17) - 0.7f;
    for (int i = 0; i < k; ++i) b[i] = i % 3 == 0 ? 0.0f : 1e-30f;
    for (int i = 0; i < k; i += 5) b[i] = 1.0f / static_cast<float>(i + 3);
    if (k == 97) std::fill(b.begin(), b.end(), 1e-30f);
    repdl::cuda::launch("chain", chain, {rows / tile}, tile, 0, stream, a.data(), b.data(), y.data(), k);
    std::vector<float> sums(rows, 0.0f);
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < k; ++i) sums[r] = repdl::fma(a[r * k + i], b[i], sums[r]);
    for (int r = 0; r < rows; ++r) expected[r] = r % tile == 0 ? sums[r] + sums[r + 1] : sums[r];
    expect(same_bits(y, expected), "a chain has other bits");
  }
}

constexpr Case cases[] = {{"chain", compare}};

}  // namespace

int main(int argc, char** argv) { return run_case(cases, argc, argv); }
