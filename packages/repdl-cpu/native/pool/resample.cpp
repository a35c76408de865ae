// Sums of weighted elements along sides, one side after the other, and their gradient (interpolate.md).
//
//   for p < outer, o < m, c < inner:  (outer, n, inner) -> (outer, m, inner)
//     out[p, o, c] = the sum of x[p, at[o, t], c] * weight[o, t] over t
//     out[p, i, c] = the sum of grad[p, o, c] * weight[o, t] over the o, t with at[o, t] = i, in row-major order
//
// forward for the last side first, backward for the first one first. Where the side is the innermost one, rows are
// transposed, `rows_at_once` of them, so that a vector always has elements with the same weights.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/threads.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "base/images.hpp"
#include "pool/side_lists.hpp"
#include "reduce/few_terms.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t rows_at_once = tuned(32, 16);
constexpr std::int64_t group_elements = tuned(1 << 15, 64);  // of images that are in cache from one side to the next

// The terms of each output of a side: elements, in their order, and weights.
template <class T>
struct WeightedLists {
  SideLists lists;
  std::vector<T> weight;

  WeightedLists inverse(std::int64_t positions) const {
    WeightedLists result{lists.inverse(positions), std::vector<T>(weight.size())};
    std::vector<std::int64_t> next(result.lists.begin.begin(), result.lists.begin.end() - 1);
    for (std::size_t k = 0; k < weight.size(); ++k) result.weight[next[lists.at[k]]++] = weight[k];
    return result;
  }
};

// Of a pass over one side: (outer, n, inner) -> (outer, lists, inner).
template <class T>
struct Pass {
  const WeightedLists<T>* terms;
  std::int64_t outer, n, inner;

  std::int64_t m() const { return terms->lists.count(); }
  std::int64_t output() const { return outer * m() * inner; }

  void run(const T* x, T* y, const Contract& contract, int threads) const {
    const std::int64_t columns = inner > 1 ? inner : rows_at_once;
    const std::int64_t work = columns * (1 + static_cast<std::int64_t>(terms->weight.size()) / m());
    const auto body = [&](std::int64_t begin, std::int64_t end) {
      if (inner > 1)
        outputs(x, y, contract, begin, end);
      else
        rows(x, y, contract, begin * rows_at_once, std::min(outer, end * rows_at_once));
    };
    const std::int64_t units = inner > 1 ? outer * m() : (outer + rows_at_once - 1) / rows_at_once;
    if (threads == 1) return body(0, units);  // in the environment of the caller
    parallel_for(units, std::max<std::int64_t>(1, (1 << 15) / (work * (inner > 1 ? 1 : m()))), threads, body);
  }

 private:
  // y[0 .. columns) = the sum of the terms of output o, whose elements have that many columns.
  void sum(const T* x, std::int64_t columns, std::int64_t o, T* y, const Contract& contract,
           std::vector<const T*>& row) const {
    const SideLists& lists = terms->lists;
    const std::int64_t count = lists.length(o), *at = lists.list(o);
    const T* weight = terms->weight.data() + lists.begin[o];
    row.clear();
    for (std::int64_t k = 0; k < count; ++k) row.push_back(x + at[k] * columns);
    if (fits_lanes(count, contract)) return fold_terms(count, columns, WeightedTerms<T>{row.data(), weight}, y);
    REPDL_ROUTE("resample: many terms", sizeof(T));
    const Scratch<T> products(count * columns);
    for (std::int64_t k = 0; k < count; ++k) {
      T* to = products.data() + k * columns;
      for (std::int64_t c = 0; c < columns; ++c) to[c] = row[k][c] * weight[k];
      row[k] = to;
    }
    sum_rows(count, columns, in_list(row), y, contract);
  }

  void outputs(const T* x, T* y, const Contract& contract, std::int64_t begin, std::int64_t end) const {
    std::vector<const T*> row;
    for (std::int64_t i = begin; i < end; ++i)
      sum(x + i / m() * n * inner, inner, i % m(), y + i * inner, contract, row);
  }

  void rows(const T* x, T* y, const Contract& contract, std::int64_t begin, std::int64_t end) const {
    REPDL_ROUTE("resample: rows", sizeof(T));
    std::vector<const T*> row;
    const Scratch<T> transposed(n * rows_at_once), result(m() * rows_at_once);
    for (std::int64_t first = begin; first < end; first += rows_at_once) {
      const std::int64_t count = std::min(rows_at_once, end - first);
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t i = 0; i < n; ++i) transposed.data()[i * count + r] = x[(first + r) * n + i];
      for (std::int64_t o = 0; o < m(); ++o) sum(transposed.data(), count, o, result.data() + o * count, contract, row);
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t o = 0; o < m(); ++o) y[(first + r) * m() + o] = result.data()[o * count + r];
    }
  }
};

// The passes over images of these sizes, in order.
template <class T>
void run_passes(const T* x, const Images& in, const std::vector<int>& sides, const std::vector<WeightedLists<T>>& terms,
                T* y, const Contract& contract, int threads) {
  Images now = in;
  std::int64_t most = in.positions();  // of an image, on the way
  for (std::size_t i = 0; i < sides.size(); ++i) {
    now.side[sides[i]] = terms[i].lists.count();
    most = std::max(most, now.positions());
  }
  most *= in.inner;
  const std::int64_t from = in.positions() * in.inner, to = now.positions() * in.inner;
  if (sides.empty()) {
    std::memcpy(y, x, sizeof(T) * static_cast<std::size_t>(in.count()));
    return;
  }
  const auto group = [&](std::int64_t begin, std::int64_t end, int inner_threads) {
    const Scratch<T> first(sides.size() > 1 ? (end - begin) * most : 0);
    const Scratch<T> second(sides.size() > 2 ? (end - begin) * most : 0);
    const T* source = x + begin * from;
    Images images = in;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const int d = sides[i];
      Pass<T> pass{&terms[i], end - begin, images.side[d], in.inner};
      for (int e = 0; e < most_sides; ++e)
        if (e != d) (e < d ? pass.outer : pass.inner) *= images.side[e];
      T* target = i + 1 == sides.size() ? y + begin * to : (i % 2 == 0 ? first : second).data();
      pass.run(source, target, contract, inner_threads);
      images.side[d] = pass.m();
      source = target;
    }
  };
  const std::int64_t at_once = std::clamp<std::int64_t>(group_elements / most, 1, in.outer);
  const std::int64_t groups = (in.outer + at_once - 1) / at_once;
  const bool few = groups < 4 * threads && threads > 1;
  if (few) REPDL_ROUTE("resample: threads share an image", sizeof(T));
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    if (groups > 1) REPDL_ROUTE("resample: second group of images", sizeof(T));
    for (std::int64_t g = begin; g < end; ++g)
      group(g * at_once, std::min(in.outer, (g + 1) * at_once), few ? threads : 1);
  };
  if (few) return some(0, groups);
  parallel_for(groups, 1, threads, some);
}

// The terms of each of the sides, in which `at` and `weights` (doubles, as their bits) are one after the other.
template <class T>
std::vector<WeightedLists<T>> read_terms(Ints at, Ints weights, const std::vector<std::int64_t>& counts,
                                         const std::vector<std::int64_t>& sizes) {
  std::int64_t outputs = 0;
  for (const std::int64_t count : counts) outputs += count;
  const std::int64_t taps = outputs == 0 ? 0 : static_cast<std::int64_t>(at.length) / outputs;
  std::vector<WeightedLists<T>> result(counts.size());
  // In the environment of parallel_for: weights are rounded here.
  parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
    std::size_t next = 0;
    for (std::size_t d = 0; d < counts.size(); ++d) {
      SideLists& lists = result[d].lists;
      for (std::int64_t k = 0; k < counts[d] * taps; ++k, ++next) {
        if (at[next] < sizes[d]) {  // else no element
          double weight;
          std::memcpy(&weight, &weights[next], sizeof weight);
          lists.at.push_back(at[next]);
          result[d].weight.push_back(static_cast<T>(weight));
        }
        if ((k + 1) % taps == 0) lists.begin.push_back(static_cast<std::int64_t>(lists.at.size()));
      }
    }
  });
  return result;
}

// The sides that are named, of images of that many.
std::vector<int> named_sides(Ints sides, const Tensor& images) {
  std::vector<int> result;
  for (const std::int64_t side : sides) result.push_back(static_cast<int>(side) + most_sides - (images.dims - 2));
  return result;
}

std::vector<std::int64_t> sizes_of(const Images& images, const std::vector<int>& sides) {
  std::vector<std::int64_t> result;
  for (const int side : sides) result.push_back(images.side[side]);
  return result;
}

template <class T>
void resample(const Tensor& input, Ints at, Ints weights, Ints sides, Ints, const Contract& contract,
              const Tensor& output, const ExecContext& exec) {
  if (output.count() == 0) return;
  const Images out(output), in(input, out.inner > 1);
  const InForm form(input, out.inner > 1);
  std::vector<int> named = named_sides(sides, input);
  auto terms = read_terms<T>(at, weights, sizes_of(out, named), sizes_of(in, named));
  std::reverse(named.begin(), named.end());
  std::reverse(terms.begin(), terms.end());
  run_passes(form.template as<T>(), in, named, terms, output.as<T>(), contract, exec.threads);
}

template <class T>
void resample_backward(const Tensor& grad, Ints at, Ints weights, Ints sides, Ints, const Contract& contract,
                       const Tensor& output, const ExecContext& exec) {
  if (output.count() == 0) return;
  const Images out(output), in(grad, out.inner > 1);
  const InForm form(grad, out.inner > 1);
  const std::vector<int> named = named_sides(sides, grad);
  auto terms = read_terms<T>(at, weights, sizes_of(in, named), sizes_of(out, named));
  for (std::size_t i = 0; i < named.size(); ++i) terms[i] = terms[i].inverse(out.side[named[i]]);
  run_passes(form.template as<T>(), in, named, terms, output.as<T>(), contract, exec.threads);
}

const AddKernel resample_kernels = add_kernels<&resample<float>, &resample<double>>("resample");
const AddKernel resample_backward_kernels =
    add_kernels<&resample_backward<float>, &resample_backward<double>>("resample_backward");

}  // namespace
}  // namespace repdl::cpu
