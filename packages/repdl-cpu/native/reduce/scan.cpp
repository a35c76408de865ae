// Running sums, and linear recurrences (scan.md).
//
//   for o < outer, c < inner:  (outer, n, inner) -> (outer, n, inner)
//     cumsum: chain += x[i], out[i] = carry + chain; a block's last output is the carry of the next one
//     linear_scan: out[0] = term[0], out[i] = fma(factor[i], out[i - 1], term[i])
#include <algorithm>

#include "base/threads.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t most_columns = tuned(64, 4);  // chains that a task computes side by side
constexpr int chains_at_once = 4;                    // chains along memory, each of which waits for its last step
constexpr std::int64_t piece = tuned(64, 8);         // elements of them whose results are finished together

// task(o, first column, columns) for all of them; each is one thread's.
template <class Task>
void for_chains(const Around& at, int threads, const Task& task) {
  const std::int64_t tiles = (at.inner + most_columns - 1) / most_columns;
  const std::int64_t work = std::max<std::int64_t>(1, at.n * std::min(at.inner, most_columns));
  parallel_for(at.outer * tiles, std::max<std::int64_t>(1, (1 << 14) / work), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t t = begin; t < end; ++t) {
                   const std::int64_t first = t % tiles * most_columns;
                   if (first > 0) REPDL_ROUTE("scan: second tile of columns");
                   task(t / tiles, first, std::min(most_columns, at.inner - first));
                 }
               });
}

// Elements begin .. end of chains along memory, rows of n elements. For each in turn, number i of all in memory:
//   chain[r] = step(chain[r], i), out[i] = canonical(finish(r, chain[r]))
template <class T, class Step, class Finish>
void along_rows(std::int64_t begin, std::int64_t end, std::int64_t n, int rows, T* chain, T* out, const Step& step,
                const Finish& finish) {
  T value[chains_at_once][piece];
  for (std::int64_t first = begin; first < end; first += piece) {
    const std::int64_t count = std::min(piece, end - first);
    if (rows == chains_at_once) {
      T last[chains_at_once];
      std::copy(chain, chain + chains_at_once, last);
      for (std::int64_t i = 0; i < count; ++i)
        for (int r = 0; r < chains_at_once; ++r) value[r][i] = last[r] = step(last[r], r * n + first + i);
      std::copy(last, last + chains_at_once, chain);
    } else {
      REPDL_ROUTE("scan: the last rows");
      for (int r = 0; r < rows; ++r)
        for (std::int64_t i = 0; i < count; ++i) value[r][i] = chain[r] = step(chain[r], r * n + first + i);
    }
    for (int r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < count; ++i) out[r * n + first + i] = canonical(finish(r, value[r][i]));
  }
}

// task(first row, rows) for all of them, some at once; each is one thread's.
template <class Task>
void for_rows(const Around& at, int threads, const Task& task) {
  const std::int64_t groups = (at.outer + chains_at_once - 1) / chains_at_once;
  const std::int64_t least = std::max<std::int64_t>(1, (1 << 14) / (at.n * chains_at_once));
  parallel_for(groups, least, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * chains_at_once; first < std::min(at.outer, end * chains_at_once);
         first += chains_at_once)
      task(first, static_cast<int>(std::min<std::int64_t>(chains_at_once, at.outer - first)));
  });
}

template <class T>
void cumsum_rows(const Around& at, std::int64_t block, const T* input, T* output, int threads) {
  for_rows(at, threads, [&](std::int64_t first, int rows) {
    const T* x = input + first * at.n;
    T* out = output + first * at.n;
    T carry[chains_at_once] = {};
    for (std::int64_t begin = 0; begin < at.n; begin += block) {
      const std::int64_t end = std::min(at.n, begin + block);
      T chain[chains_at_once] = {};
      along_rows(
          begin, end, at.n, rows, chain, out, [=](T sum, std::int64_t i) { return sum + x[i]; },
          [&carry](int r, T sum) { return carry[r] + sum; });
      for (int r = 0; r < rows; ++r) carry[r] = out[r * at.n + end - 1];
    }
  });
}

template <class T>
void cumsum(const Tensor& input, std::int64_t dim, const Contract& contract, const Tensor& output,
            const ExecContext& exec) {
  const Around at = around(input, dim);
  if (at.count() == 0) return;
  const std::int64_t block = contract.sum_block == 0 ? at.n : contract.sum_block;
  if (at.inner == 1) return cumsum_rows(at, block, input.as<T>(), output.as<T>(), exec.threads);
  for_chains(at, exec.threads, [&](std::int64_t o, std::int64_t first, std::int64_t columns) {
    const T* x = input.as<T>() + o * at.n * at.inner + first;
    T* out = output.as<T>() + o * at.n * at.inner + first;
    T chain[most_columns], carry[most_columns] = {};
    for (std::int64_t begin = 0; begin < at.n; begin += block) {
      std::fill(chain, chain + columns, T(0));
      for (std::int64_t i = begin; i < std::min(at.n, begin + block); ++i)
        for (std::int64_t c = 0; c < columns; ++c) {
          chain[c] += x[i * at.inner + c];
          out[i * at.inner + c] = canonical(carry[c] + chain[c]);
        }
      const std::int64_t last = std::min(at.n, begin + block) - 1;
      for (std::int64_t c = 0; c < columns; ++c) carry[c] = out[last * at.inner + c];
    }
  });
}

template <class T>
void linear_scan_rows(const Around& at, const T* factor, const T* term, T* output, int threads) {
  for_rows(at, threads, [&](std::int64_t first, int rows) {
    const T *a = factor + first * at.n, *b = term + first * at.n;
    T* out = output + first * at.n;
    T chain[chains_at_once];
    for (int r = 0; r < rows; ++r) {
      chain[r] = b[r * at.n];
      out[r * at.n] = canonical(chain[r]);
    }
    along_rows(
        1, at.n, at.n, rows, chain, out, [=](T last, std::int64_t i) { return repdl::fma(a[i], last, b[i]); },
        [](int, T value) { return value; });
  });
}

template <class T>
void linear_scan(const Tensor& factor, const Tensor& term, std::int64_t dim, const Tensor& output,
                 const ExecContext& exec) {
  const Around at = around(term, dim);
  if (at.count() == 0) return;
  if (at.inner == 1) return linear_scan_rows(at, factor.as<T>(), term.as<T>(), output.as<T>(), exec.threads);
  for_chains(at, exec.threads, [&](std::int64_t o, std::int64_t first, std::int64_t columns) {
    const std::int64_t begin = o * at.n * at.inner + first;
    const T *a = factor.as<T>() + begin, *b = term.as<T>() + begin;
    T* out = output.as<T>() + begin;
    for (std::int64_t c = 0; c < columns; ++c) out[c] = canonical(b[c]);
    for (std::int64_t i = at.inner; i < at.n * at.inner; i += at.inner)
      for (std::int64_t c = 0; c < columns; ++c)
        out[i + c] = canonical(repdl::fma(a[i + c], out[i - at.inner + c], b[i + c]));
  });
}

const AddKernel cumsum_kernels = add_kernels<&cumsum<float>, &cumsum<double>>("cumsum", Layout::rows);
const AddKernel linear_scan_kernels =
    add_kernels<&linear_scan<float>, &linear_scan<double>>("linear_scan", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
