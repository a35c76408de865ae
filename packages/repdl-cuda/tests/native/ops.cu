// Ops as they are, compared with plain loops: what test_planted.py runs with edited kernels and under sanitizers.
#include <algorithm>
#include <array>
#include <set>

#include "check.hpp"
#include "gemm/gemm.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/contract/order.hpp"
#include "repdl/exact/exp.hpp"

using namespace check;

namespace {

// Numbers of all sizes, with both signs.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> x(count);
  unsigned state = 1;
  for (float& value : x) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(state)) * (state % 7 == 0 ? 1e-6f : 1e-9f);
  }
  return x;
}

// sum.md, for one output whose elements are `stride` apart.
float plain_sum(const float* x, std::int64_t n, std::int64_t stride, int lanes, std::int64_t block) {
  repdl::Tree<float> tree;
  for (std::int64_t begin = 0; begin < n; begin += block) {
    std::vector<float> lane(lanes, 0.0f);
    for (std::int64_t i = 0; begin + i < n && i < block; ++i) lane[i % lanes] += x[(begin + i) * stride];
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    tree.push(lane[0]);
  }
  return repdl::canonical(tree.result());
}

// x (rows, columns), summed over its columns or its rows.
void compare_sum(std::int64_t rows, std::int64_t columns, bool over_rows, int lanes, std::int64_t block) {
  std::vector<float> x = numbers(rows * columns);
  const std::int64_t kept = over_rows ? columns : rows, kept_stride = over_rows ? 1 : columns;
  const std::int64_t reduced = over_rows ? rows : columns, reduced_stride = over_rows ? columns : 1;
  std::vector<float> y(kept), expected(kept);
  const View input(x, {rows, columns}, {columns, 1}), output(y, {kept}, {1});
  const std::int64_t dim = over_rows ? 0 : 1;
  call("sum", {input.tensor, repdl::Ints{&dim, 1}, false, repdl::Contract{256, lanes, block}, output.tensor});
  for (std::int64_t i = 0; i < kept; ++i)
    expected[i] = plain_sum(&x[i * kept_stride], reduced, reduced_stride, lanes, block);
  expect(same_bits(y, expected), "a sum has other bits");
}

void sum_rows() {
  for (const std::int64_t n : {1, 31, 50, 64, 65, 200, 300}) compare_sum(3, n, false, 64, 1024);
  compare_sum(3, 200, false, 16, 48);
}
void sum_columns() {
  for (const std::int64_t n : {1, 64, 100}) compare_sum(n, 40, true, 64, 1024);
  compare_sum(100, 40, true, 16, 48);
}

// x (outer, kept, inner), summed over the outer and the inner dimension: `outer` runs of terms.
void sum_runs() {
  const std::int64_t outer = 5, kept = 3, inner = 50, dims[] = {0, 2};
  std::vector<float> x = numbers(outer * kept * inner), terms(outer * inner), y(kept), expected(kept);
  const View input(x, {outer, kept, inner}, {kept * inner, inner, 1}), output(y, {kept}, {1});
  call("sum", {input.tensor, repdl::Ints{dims, 2}, false, repdl::Contract{256, 64, 1024}, output.tensor});
  for (std::int64_t k = 0; k < kept; ++k) {
    for (std::int64_t i = 0; i < outer * inner; ++i) terms[i] = x[(i / inner * kept + k) * inner + i % inner];
    expected[k] = plain_sum(terms.data(), outer * inner, 1, 64, 1024);
  }
  expect(same_bits(y, expected), "a sum over two dimensions has other bits");
}
void sum_blocks() {
  for (const std::int64_t blocks : {35, 300}) compare_sum(2, 48 * blocks + 5, false, 16, 48);
}

// A (m, k) @ B (k, n) -> (m, n) by tiles of a size, B transposed in memory or not.
void compare_matmul(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t chunk, int tile, bool transposed) {
  std::vector<float> a = numbers(m * k), b = numbers(k * n), y(m * n), expected(m * n);
  const std::int64_t row = transposed ? 1 : n, column = transposed ? k : 1;
  const View left(a, {m, k}, {k, 1}), right(b, {k, n}, {row, column}), output(y, {m, n}, {n, 1});
  setenv("REPDL_CUDA_TILE", std::to_string(tile).c_str(), 1);
  call("matmul", {left.tensor, right.tensor, false, false, repdl::Contract{chunk, 64, 1024}, output.tensor});
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      repdl::Tree<float> tree;
      for (std::int64_t begin = 0; begin < k; begin += chunk) {
        float sum = 0.0f;
        for (std::int64_t l = begin; l < k && l < begin + chunk; ++l)
          sum = repdl::fma(a[i * k + l], b[l * row + j * column], sum);
        tree.push(sum);
      }
      expected[i * n + j] = repdl::canonical(tree.result());
    }
  expect(same_bits(y, expected), "a product has other bits");
}

void matmul() {
  compare_matmul(33, 35, 77, 30, 32, false);
  compare_matmul(5, 1100, 40, 256, 128, true);  // more tiles than blocks
  compare_matmul(65, 67, 77, 256, 64, true);
  compare_matmul(129, 130, 19, 256, 128, false);
}

// Windows of side * side taps on images (2, 3, 4, width), with as much padding as keeps their size.
void compare_convolution(std::int64_t width, std::int64_t side, int tile) {
  const std::int64_t n = 2, channels = 3, height = 4, outputs = 5, chunk = 20, pad = side / 2, one[] = {1, 1};
  const std::int64_t area = height * width, taps = side * side, padding[] = {pad, pad};
  std::vector<float> x = numbers(n * channels * area), w = numbers(outputs * channels * taps);
  std::vector<float> y(n * outputs * area), expected(y.size());
  const View input(x, {n, channels, height, width}, {channels * area, area, width, 1});
  const View weight(w, {outputs, channels, side, side}, {channels * taps, taps, side, 1});
  const View output(y, {n, outputs, height, width}, {outputs * area, area, width, 1});
  setenv("REPDL_CUDA_TILE", std::to_string(tile).c_str(), 1);
  const repdl::Ints ones{one, 2};
  call("conv2d", {input.tensor, weight.tensor, repdl::Tensor{}, ones, repdl::Ints{padding, 2}, ones, std::int64_t{1},
                  repdl::Contract{chunk, 64, 1024}, output.tensor});
  for (std::int64_t at = 0; at < n * outputs * area; ++at) {
    const std::int64_t image = at / area / outputs, o = at / area % outputs, i = at % area / width, j = at % width;
    repdl::Tree<float> tree;
    for (std::int64_t begin = 0; begin < channels * taps; begin += chunk) {
      float sum = 0.0f;
      for (std::int64_t k = begin; k < channels * taps && k < begin + chunk; ++k) {
        const std::int64_t row = i + k % taps / side - pad, column = j + k % side - pad;
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        const float value = inside ? x[((image * channels + k / taps) * height + row) * width + column] : 0.0f;
        sum = repdl::fma(w[o * channels * taps + k], value, sum);
      }
      tree.push(sum);
    }
    expected[at] = repdl::canonical(tree.result());
  }
  expect(same_bits(y, expected), "a convolution has other bits");
}

void convolution() {
  compare_convolution(5, 1, 32);  // by vectors of pixels
  compare_convolution(8, 1, 128);
  compare_convolution(5, 3, 32);  // by a table of taps
  compare_convolution(7, 7, 64);
  compare_convolution(3, 9, 32);  // too many for it
}

// Requests that shared memory takes for a load of 16 bytes a lane, at these bytes: each half of a warp takes one where
// all lanes i and i ^ 1, or all i and i ^ 2, share addresses, else one for each quarter; and one more for each further
// word of a bank. As measured by others from compute capability 5 on; no manual says it.
int requests(const std::array<int, 32>& at) {
  const auto pairs = [&](int first, int apart) {
    for (int i = first; i < first + 16; ++i)
      if (at[i] != at[i ^ apart]) return false;
    return true;
  };
  int count = 0;
  for (int half = 0; half < 32; half += 16) {
    const int lanes = pairs(half, 1) || pairs(half, 2) ? 16 : 8;
    for (int first = half; first < half + 16; first += lanes) {
      std::array<std::set<int>, 32> words;  // of each bank
      std::size_t most = 0;
      for (int i = first; i < first + lanes; ++i)
        for (int word = at[i] / 4; word < at[i] / 4 + 4; ++word) {
          words[word % 32].insert(word);
          most = std::max(most, words[word % 32].size());
        }
      count += static_cast<int>(most);
    }
  }
  return count;
}

// Where each thread has its first row and column, and its next vectors of them.
template <class Tiling>
void write_places(int* rows, int* columns) {
  const repdl::cuda::Patch<Tiling> patch;
  for (int r = 0; r < Tiling::rows; r += Tiling::vector)
    rows[r / Tiling::vector * Tiling::threads + threadIdx.x] = patch.row(r);
  for (int c = 0; c < Tiling::columns; c += Tiling::vector)
    columns[c / Tiling::vector * Tiling::threads + threadIdx.x] = patch.column(c);
}

// Every load of A and B by a warp takes two requests; and where it stores vectors of outputs, each
// quarter of it stores whole sectors of 32 bytes.
template <class Tiling>
void count_requests() {
  constexpr int bytes = sizeof(typename Tiling::T), row_bytes = Tiling::tile * bytes;
  std::vector<int> rows(Tiling::rows / Tiling::vector * Tiling::threads);
  std::vector<int> columns(Tiling::columns / Tiling::vector * Tiling::threads);
  repdl::cuda::launch("places", write_places<Tiling>, {1}, Tiling::threads, 0, stream, rows.data(), columns.data());
  for (const std::vector<int>* places : {&rows, &columns})
    for (std::size_t warp = 0; warp < places->size(); warp += 32) {
      std::array<int, 32> at;
      for (int i = 0; i < 32; ++i) at[i] = (*places)[warp + i] * bytes;
      expect(requests(at) == 2, "a warp's load of A or B takes more than two requests of shared memory");
    }
  for (std::size_t first = 0; first < columns.size(); first += 8) {
    std::set<int> sectors;
    for (std::size_t i = first; i < first + 8; ++i)
      sectors.insert((rows[i % Tiling::threads] * row_bytes + columns[i] * bytes) / 32);
    expect(sectors.size() == 4, "a quarter of a warp stores parts of sectors");
  }
}
void shared_requests() {
  std::array<int, 32> at;
  for (int i = 0; i < 32; ++i) at[i] = 16 * i;
  expect(requests(at) == 4, "32 vectors side by side");
  for (int i = 0; i < 32; ++i) at[i] = i % 2 * 128;
  expect(requests(at) == 4, "two vectors in one bank");
  count_requests<repdl::cuda::Tiling<float, 128, 8, 8>>();
  count_requests<repdl::cuda::Tiling<float, 64, 8, 4>>();
  count_requests<repdl::cuda::Tiling<float, 32, 4, 4>>();
  count_requests<repdl::cuda::Tiling<double, 64, 4, 4>>();
  count_requests<repdl::cuda::Tiling<double, 32, 4, 4>>();
}

// In place, with threads past the end.
void cast() {
  for (const std::int64_t n : {5, 1027}) {
    std::vector<float> x = numbers(n);
    const std::vector<float> expected = x;
    const View all(x, {n}, {1});
    call("cast", {all.tensor, repdl::DType::float32, all.tensor});
    expect(same_bits(x, expected), "a cast has other bits");
  }
}

// softmax of two rows of n, and its gradient, `shift` elements from where packs of 16 bytes begin: in registers with
// the lanes of v1.
void compare_softmax(std::int64_t n, int shift, int lanes) {
  const std::int64_t count = 2 * n;
  std::vector<float> x = numbers(count + shift), grad = numbers(2 * count + shift), y(count), result(count);
  grad.erase(grad.begin(), grad.begin() + count);
  std::vector<float> expected(count), expected_result(count);
  for (std::int64_t row = 0; row < 2; ++row) {
    const float *a = &x[shift + row * n], *g = &grad[shift + row * n], m = *std::max_element(a, a + n);
    float *e = &expected[row * n], *r = &expected_result[row * n];
    for (std::int64_t i = 0; i < n; ++i) e[i] = repdl::exact::exp(a[i] - m);
    const float s = plain_sum(e, n, 1, lanes, 1024);
    for (std::int64_t i = 0; i < n; ++i) e[i] = repdl::canonical(e[i] / s), r[i] = repdl::mul(g[i], e[i]);
    const float t = plain_sum(r, n, 1, lanes, 1024);
    for (std::int64_t i = 0; i < n; ++i) r[i] = repdl::canonical(repdl::mul(g[i] - t, e[i]));
  }
  const repdl::Contract contract{256, lanes, 1024};
  View input(x, {2, n}, {n, 1}), gradient(grad, {2, n}, {n, 1});
  input.tensor.data = &x[shift];
  gradient.tensor.data = &grad[shift];
  const View output(y, {2, n}, {n, 1}), to(result, {2, n}, {n, 1});
  call("softmax", {input.tensor, std::int64_t{1}, contract, output.tensor});
  expect(same_bits(y, expected), "a softmax has other bits");
  call("softmax_backward", {gradient.tensor, output.tensor, std::int64_t{1}, contract, to.tensor});
  expect(same_bits(result, expected_result), "a gradient of softmax has other bits");
}

void rows() {
  for (const std::int64_t n : {3, 12, 13, 516, 4100, 8196})
    for (const int shift : {0, 1})
      for (const int lanes : {32, 64}) compare_softmax(n, shift, lanes);
}

constexpr Case cases[] = {
    {"sum_rows", sum_rows}, {"sum_columns", sum_columns},         {"sum_runs", sum_runs}, {"sum_blocks", sum_blocks},
    {"matmul", matmul},     {"shared_requests", shared_requests}, {"cast", cast},         {"convolution", convolution},
    {"rows", rows}};

}  // namespace

int main(int argc, char** argv) { return run_case(cases, argc, argv); }
