// The emulated machine itself: one case for each feature of CUDA that kernels use.
#include <cuda_pipeline_primitives.h>

#include <algorithm>

#include "check.hpp"

using namespace check;
using repdl::cuda::dynamic_shared;
using repdl::cuda::launch;
using repdl::cuda::shared;

namespace {

constexpr unsigned all = 0xffffffffu;

// kernel(arguments...) with a grid and a block.
template <class... Parameters, class... Arguments>
void start(repdl::cuda::Grid grid, dim3 block, void (*kernel)(Parameters...), Arguments... arguments) {
  launch("test", kernel, grid, block, 0, stream, arguments...);
}

// ---- indices
__global__ void write_indices(int* y) {
  const unsigned rows = gridDim.y, columns = gridDim.x;
  const int block = blockIdx.x + columns * (blockIdx.y + rows * static_cast<unsigned>(blockIdx.z));
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  y[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1 + block * 100 + thread;
}
void indices() {
  for (int seed = 0; seed < 3; ++seed) {
    set_seed(seed);
    std::vector<int> y(2 * 3 * 4 * 24);
    start({2, 3, 4}, dim3(4, 3, 2), write_indices, y.data());
    for (int i = 0; i < static_cast<int>(y.size()); ++i)
      expect(y[i] == 1 + i / 24 * 100 + i % 24, "each thread of each block runs once");
  }
}

// ---- shared memory
struct Words {
  float word[64];
};
__global__ void read_unwritten(int* y) {
  const float a = shared<Words>().word[threadIdx.x], b = dynamic_shared<float>()[threadIdx.x];
  y[repdl::cuda::thread_index()] = a != a && b != b;
  shared<Words>().word[threadIdx.x] = dynamic_shared<float>()[threadIdx.x] = 1.0f;
}
void shared_memory_is_nan_in_each_block() {
  std::vector<int> y(3 * 64);
  launch("test", read_unwritten, {3}, 64, 64 * sizeof(float), stream, y.data());
  expect(std::count(y.begin(), y.end(), 1) == 3 * 64, "unwritten shared memory is NaN");
}

// ---- barriers
template <bool Barrier>
__global__ void reverse(int* y) {
  auto& word = shared<Words>().word;
  word[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (Barrier) __syncthreads();
  y[threadIdx.x] = static_cast<int>(word[63 - threadIdx.x]) == 63 - static_cast<int>(threadIdx.x);
}
void barrier() {
  for (int seed = 0; seed < 3; ++seed) {
    set_seed(seed);
    std::vector<int> y(64);
    start({1}, 64, reverse<true>, y.data());
    expect(std::count(y.begin(), y.end(), 1) == 64, "a barrier makes writes of other threads visible");
  }
}
void missing_barrier() {
  for (int seed = 0; seed < 3; ++seed) {
    set_seed(seed);
    std::vector<int> y(64);
    start({1}, 64, reverse<false>, y.data());
    expect(std::count(y.begin(), y.end(), 1) < 64, "without the barrier the result is wrong");
  }
}
// The second words of a warp are where the other one may not have read the first ones yet.
__global__ void write_again(int* y) {
  auto& word = shared<Words>().word;
  const unsigned warp = threadIdx.x / 32;
  word[warp] = static_cast<float>(warp);
  __syncthreads();
  const float other = __shfl_sync(all, word[1 - warp], 0);
  if (threadIdx.x % 32 == 0) word[warp] = 7.0f;
  __syncthreads();
  y[threadIdx.x] = other == static_cast<float>(1 - warp);
}
void warp_overtakes() {
  std::vector<int> y(64);
  start({1}, 64, write_again, y.data());
  expect(std::count(y.begin(), y.end(), 1) == 32, "a warp that nothing stops writes before the other one reads");
}
__global__ void barrier_in_half() {
  if (threadIdx.x < 32) __syncthreads();
}
__global__ void different_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
void divergent_barrier() {
  expect_error("has left the kernel", [] { start({1}, 64, barrier_in_half); });
  expect_error("waits at __syncthreads in line", [] { start({1}, 64, different_barriers); });
  std::vector<int> y(64);
  start({1}, 64, reverse<true>, y.data());
  expect(std::count(y.begin(), y.end(), 1) == 64, "the next launch is well again");
}

// ---- shuffles and votes
__global__ void shuffles(int* y) {
  const int me = threadIdx.x;
  const double wide = __shfl_sync(all, me * 0.5, 7);
  const bool right = __shfl_sync(all, me, 3) == 3 && __shfl_sync(all, me, 3, 8) == me / 8 * 8 + 3 && wide == 3.5 &&
                     __shfl_down_sync(all, me, 16) == (me < 16 ? me + 16 : me) &&
                     __shfl_up_sync(all, me, 1) == (me > 0 ? me - 1 : 0) &&
                     __shfl_down_sync(all, me, 1, 4) == (me % 4 == 3 ? me : me + 1) &&
                     __shfl_xor_sync(all, me, 5) == (me ^ 5);
  y[me] = right;
}
__global__ void votes(int* y) {
  const int me = threadIdx.x;
  y[me] = __ballot_sync(all, me % 3 == 0) == 0x49249249u && __any_sync(all, me == 31) && !__any_sync(all, false) &&
          !__all_sync(all, me < 31) && __all_sync(all, true);
}
__global__ void low_half(int* y) {
  const int me = threadIdx.x;
  y[me] = me < 16 ? __shfl_xor_sync(0xffffu, me, 1) : (me ^ 1);
  __syncwarp();
}
void shuffle_and_vote() {
  for (int seed = 0; seed < 3; ++seed) {
    set_seed(seed);
    std::vector<int> y(32), z(32);
    start({1}, 32, shuffles, y.data());
    start({1}, 32, votes, z.data());
    expect(std::count(y.begin(), y.end(), 1) == 32, "shuffles");
    expect(std::count(z.begin(), z.end(), 1) == 32, "votes");
    start({1}, 32, low_half, y.data());
    for (int i = 0; i < 32; ++i) expect(y[i] == (i ^ 1), "a shuffle of half a warp");
  }
}
__global__ void mask_of_others(int* y) { y[threadIdx.x] = __shfl_sync(1u, 0, 0); }
__global__ void reads_outside_mask(int* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_down_sync(0xffffu, 1, 8);
}
__global__ void lanes_that_do_not_come(int* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(all, 1, 0);
}
__global__ void masks_that_differ(int* y) {
  y[threadIdx.x] = threadIdx.x < 16 ? __shfl_sync(all, 1, 0) : __shfl_sync(0xffff0000u, 1, 20);
}
void wrong_mask() {
  std::vector<int> y(32);
  expect_error("not in its own mask", [&] { start({1}, 32, mask_of_others, y.data()); });
  expect_error("a lane that is not in its mask", [&] { start({1}, 32, reads_outside_mask, y.data()); });
  expect_error("waits for the lanes of its mask", [&] { start({1}, 32, lanes_that_do_not_come, y.data()); });
  expect_error("waits for the lanes of its mask", [&] { start({1}, 32, masks_that_differ, y.data()); });
}

// ---- asynchronous copies
template <bool Wait>
__global__ void copy_in(const float* x, int* y) {
  auto& word = shared<Words>().word;
  __pipeline_memcpy_async(&word[threadIdx.x], &x[threadIdx.x], sizeof(float));
  __pipeline_commit();
  if (Wait) __pipeline_wait_prior(0);
  y[threadIdx.x] = word[threadIdx.x] == x[threadIdx.x];
}
__global__ void two_groups(const float* x, int* y) {
  auto& word = shared<Words>().word;
  __pipeline_memcpy_async(&word[0], &x[0], sizeof(float));
  __pipeline_commit();
  __pipeline_memcpy_async(&word[4], &x[4], 16, 8);  // two of four words are zeros
  __pipeline_commit();
  __pipeline_wait_prior(1);
  y[0] = word[0] == x[0];
  __pipeline_wait_prior(0);
  y[1] = word[5] == x[5] && word[6] == 0.0f && word[7] == 0.0f;
}
void asynchronous_copies() {
  std::vector<float> x(64, 2.0f);
  std::vector<int> y(64);
  for (int seed = 0; seed < 8; ++seed) {
    set_seed(seed);
    start({1}, 64, copy_in<true>, x.data(), y.data());
    expect(std::count(y.begin(), y.end(), 1) == 64, "a copy has come after the wait");
    start({1}, 64, copy_in<false>, x.data(), y.data());
    const auto early = std::count(y.begin(), y.end(), 1);
    expect(seed == 0 ? early == 64 : early > 0 && early < 64, "copies at once, or some of them late");
    alignas(16) float aligned[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    start({1}, 1, two_groups, static_cast<const float*>(aligned), y.data());
    expect(y[0] == 1 && y[1] == 1, "groups of copies, and zeros behind");
  }
}
__global__ void copy_of(const char* x, std::size_t bytes) { __pipeline_memcpy_async(dynamic_shared<char>(), x, bytes); }
void wrong_copies() {
  alignas(16) char x[32] = {};
  const auto copy = [](const char* from, std::size_t bytes) {
    launch("test", copy_of, {1}, 1, 64, stream, from, bytes);
  };
  copy(x, 16);
  expect_error("a size other than 4, 8 or 16", [&] { copy(x, 12); });
  expect_error("not aligned to its size", [&] { copy(x + 4, 8); });
}

// ---- order
__global__ void write_order(int* next, int* y) { y[(*next)++] = static_cast<int>(repdl::cuda::thread_index()); }
std::vector<int> order(int seed) {
  set_seed(seed);
  int next = 0;
  std::vector<int> y(4 * 16);
  start({4}, 16, write_order, &next, y.data());
  return y;
}
void thread_order() {
  std::vector<int> ascending = order(0);
  expect(std::is_sorted(ascending.begin(), ascending.end()), "seed 0 is ascending");
  expect(order(1) == order(1), "a seed is one order");
  expect(order(1) != order(2) && order(1) != ascending, "other seeds are other orders");
  std::vector<int> shuffled = order(1);
  std::vector<int> blocks;
  for (std::size_t i = 0; i < shuffled.size(); i += 16) blocks.push_back(shuffled[i] / 16);
  expect(!std::is_sorted(blocks.begin(), blocks.end()), "blocks are shuffled too");
  std::sort(shuffled.begin(), shuffled.end());
  expect(shuffled == ascending, "each thread runs once in any order");
}

// ---- launches that cannot be
__global__ void nothing() {}
void wrong_launches() {
  start({0}, 32, nothing);
  expect_error("1 x 65536 x 1 blocks, expected at most", [] { start({1, 65536}, 32, nothing); });
  expect_error("blocks, expected at most", [] { start({2147483648}, 32, nothing); });
  expect_error("blocks, expected at most", [] { start({-1}, 32, nothing); });
  expect_error("test: ", [] { start({1}, 1025, nothing); });
  expect_error("test: ", [] { start({1}, 0, nothing); });
  expect_error("test: ", [] { launch("test", nothing, {1}, 32, (64 << 10) + 1, stream); });
  launch("test", nothing, {1}, 1024, 64 << 10, stream);
}

constexpr Case cases[] = {
    {"indices", indices},
    {"shared_memory_is_nan_in_each_block", shared_memory_is_nan_in_each_block},
    {"barrier", barrier},
    {"missing_barrier", missing_barrier},
    {"warp_overtakes", warp_overtakes},
    {"divergent_barrier", divergent_barrier},
    {"shuffle_and_vote", shuffle_and_vote},
    {"wrong_mask", wrong_mask},
    {"asynchronous_copies", asynchronous_copies},
    {"wrong_copies", wrong_copies},
    {"thread_order", thread_order},
    {"wrong_launches", wrong_launches},
};

}  // namespace

int main(int argc, char** argv) { return run_case(cases, argc, argv); }
