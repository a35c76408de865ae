// Ops as they are, compared with plain loops: what test_planted.py runs with edited kernels and under sanitizers.
#include "check.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/contract/order.hpp"

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
void sum_blocks() { compare_sum(2, 48 * 35 + 5, false, 16, 48); }

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

constexpr Case cases[] = {{"sum_rows", sum_rows},     {"sum_columns", sum_columns}, {"sum_runs", sum_runs},
                          {"sum_blocks", sum_blocks}, {"matmul", matmul},           {"cast", cast}};

}  // namespace

int main(int argc, char** argv) { return run_case(cases, argc, argv); }
