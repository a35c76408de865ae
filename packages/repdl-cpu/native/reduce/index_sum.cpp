// The sum of the rows of equal index (index_sum.md, sum.hpp), what it is added to, and the selection of rows.
//
//   for k < size:  (n, width), (n) -> (size, width)
//     out[k] = sum of values[i] over the i with index[i] = k, i ascending
//   for k < size:  (size, width), (n), (n, width) -> (size, width)
//     out[k] = fma(alpha, that sum, x[k]), with alpha = 1 x[k] + that sum
//   for i < n:  (rows, width), (n) -> (n, width)
//     out[i] = weight[index[i]], bytes that are moved
//
// A stable counting sort by index comes first (terms_of_rows.hpp): of the places of terms, or of narrow terms
// themselves. Of few narrow terms a radix sort (sparse_terms.hpp), and the rows without any are done apart. Terms of
// one element are not sorted where few of them meet (lanes_of_rows.hpp).
#include <cstring>
#include <limits>

#include "base/environment.hpp"
#include "base/images.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "reduce/eight_rows.hpp"
#include "reduce/few_terms.hpp"
#include "reduce/lanes_of_rows.hpp"
#include "reduce/sparse_terms.hpp"
#include "reduce/sum.hpp"
#include "reduce/terms_of_rows.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/pointwise/arithmetic.hpp"
#include "reduce/row_sum.hpp"
#include "simd/row_loop.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t terms_a_thread = 1 << 14;       // elements worth a thread
constexpr std::int64_t narrow_bytes = 64;              // of a row: a cache line
constexpr std::int64_t rows_a_term = 8;                // from which on terms are few
constexpr std::int64_t many_rows = tuned(4096, 64);    // of which few terms may be sorted apart
constexpr std::int64_t rows_a_block = tuned(1024, 9);  // of narrow sums, which are finished together
constexpr std::int64_t most_counted = std::numeric_limits<std::uint32_t>::max();  // that narrow sums count
constexpr std::int64_t terms_a_look = tuned(4096, 8);  // after which it is seen whether too many of them meet

// The sum of n numbers in memory; those behind them are read, and count for nothing, up to a vector.
template <class T>
T short_row(const T* x, std::int64_t n, const Contract& contract) {
  if constexpr (std::is_same_v<T, float>) {
    if (n <= Vec::width && fits_lanes(n, contract)) return fold(Vec::load(x, static_cast<int>(n))) + 0.0f;
  }
  return sum_row(x, n, 1, contract);
}

// What becomes of the sums, which are canonical: nothing, or they are added to the rows of x.
struct Sums {
  template <class Counts, class T>
  void rows(const Counts&, std::int64_t, std::int64_t, T*) const {}
  template <class T>
  void row(std::int64_t, std::int64_t, std::int64_t, T*) const {}
  template <class T>
  void without_terms(std::int64_t, std::int64_t n, T* to) const {
    std::fill(to, to + n, T(0));
  }
};

// A row without terms gets the zero that changes no bit.
template <class T>
struct AddedTo {
  const T* x;
  std::int64_t width;
  double alpha;
  T nothing = std::copysign(T(0), std::signbit(alpha) ? T(1) : T(-1));

  // Rows from .. until at `to`.
  template <class Counts>
  void rows(const Counts& terms, std::int64_t from, std::int64_t until, T* to) const {
    if (width == 1) {
      const auto total = [&terms, from, to, none = nothing](std::int64_t k) {
        const T sum = to[k];  // loaded in any case, so that no branch decides
        return terms.count(from + k) == 0 ? none : sum;
      };
      return add(x + from, until - from, total, to);
    }
    for (std::int64_t k = from; k < until; ++k) row(terms.count(k), k * width, width, to + (k - from) * width);
  }

  // Elements of a row that has so many terms, the first of them number `first` of x.
  void row(std::int64_t count, std::int64_t first, std::int64_t columns, T* to) const {
    if (count == 0) return without_terms(first, columns, to);
    add(x + first, columns, [&](std::int64_t c) { return to[c]; }, to);
  }

  // Elements first .. first + n, of rows without terms.
  void without_terms(std::int64_t first, std::int64_t n, T* to) const {
    add(x + first, n, [none = nothing](std::int64_t) { return none; }, to);
  }

 private:
  template <class Total>
  void add(const T* from, std::int64_t n, const Total& total, T* to) const {
    if (alpha == 1) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = canonical(from[i] + total(i));
    } else {
      const pointwise::AddAlpha<T> scaled(alpha);
      for (std::int64_t i = 0; i < n; ++i) to[i] = canonical(scaled(from[i], total(i)));
    }
  }
};

// Rows of one element, from .. until, the first of them to *out.
template <class Rows, class T>
void sum_elements(const T* sorted, const Rows& terms, std::int64_t from, std::int64_t until, const Contract& contract,
                  T* out) {
  const std::int64_t most =
      contract.sum_block == 0 ? contract.sum_lanes : std::min(contract.sum_lanes, contract.sum_block);
  for (std::int64_t k = from; k < until;) {
    const auto begin = [&terms, k](int row) { return terms.begin(k + row); };
    if (k + 8 <= until && sum_eight_rows(sorted, begin, most, out + (k - from))) {
      k += 8;
      continue;
    }
    for (const std::int64_t end = std::min(k + 8, until); k < end; ++k)
      out[k - from] = canonical(short_row(sorted + terms.begin(k), terms.count(k), contract));
  }
}

// Sums of the rows that have too many terms for their lanes, of all their terms.
template <class Rows, class T>
void sum_again(const Rows& rows, const T* x, const std::int64_t* index, std::int64_t n, std::int64_t size,
               const Contract& contract, T* out) {
  const Scratch<std::int64_t> row(n), place(n);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    row.data()[count] = index[i];
    place.data()[count] = i;
    count += rows.too_many(index[i]);
  }
  const SparseTerms terms(row.data(), count, size);
  const Scratch<T> sorted(count + max_lanes);
  for (std::int64_t j = 0; j < count; ++j) sorted.data()[j] = x[place.data()[terms.place(j)]];
  for (std::int64_t r = 0; r < terms.rows(); ++r)
    out[terms.row(r)] = canonical(short_row(sorted.data() + terms.begin(r), terms.count(r), contract));
}

// False if too many terms meet, and a sort of all takes less time.
template <class Rows, class T, class Finish>
bool sum_in_lanes(const T* x, const std::int64_t* index, std::int64_t n, std::int64_t size, const Contract& contract,
                  int threads, const Finish& finish, T* out) {
  Rows rows(size, out);
  const auto each_row = [size, threads](const auto& share) { parallel_for(size, terms_a_thread, threads, share); };
  each_row([&](std::int64_t from, std::int64_t until) { rows.clear(from, until); });
  std::int64_t beyond = 0;
  bool too_many = false;
  in_ieee_scope([&] {
    for (std::int64_t i = 0, end = 0; i < n && !too_many; i = end) {
      end = std::min(i + terms_a_look, n);
      beyond += rows.add(x + i, index + i, end - i);
      too_many = beyond > end / 4;
    }
  });
  if (too_many) return false;
  each_row([&](std::int64_t from, std::int64_t until) { rows.fold(from, until); });
  if (beyond > 0) {
    in_ieee_scope([&] { sum_again(rows, x, index, n, size, contract, out); });
    REPDL_ROUTE("index_sum: rows of more terms than their lanes take", Rows::lanes, sizeof(T));
  }
  REPDL_ROUTE("index_sum: lanes of rows", Rows::lanes, sizeof(T));
  each_row([&](std::int64_t from, std::int64_t until) { finish.rows(rows, from, until, out + from); });
  return true;
}

template <class T>
void sum_narrow_row(const T* first, std::int64_t count, std::int64_t width, const Contract& contract, T* row) {
  if (fits_lanes(count, contract)) {
    const T* term[max_lanes];
    for (std::int64_t i = 0; i < count; ++i) term[i] = first + i * width;
    return fold_terms(count, width, RowTerms<T>{term}, row);
  }
  sum_columns(count, width, true, [=](std::int64_t i) { return first + i * width; }, row, contract);
  for (std::int64_t c = 0; c < width; ++c) row[c] = canonical(row[c]);
}

template <class T, class Finish>
void sum_narrow(const T* x, const std::int64_t* index, std::int64_t n, std::int64_t size, std::int64_t width,
                const Contract& contract, int threads, const Finish& finish, T* out) {
  REPDL_ROUTE("index_sum: narrow", sizeof(T));
  const Scratch<T> scratch(n * width + max_lanes);
  T* sorted = scratch.data();
  const Terms<std::uint32_t> terms(index, n, size, TermRows<T>{sorted, width}, [=](std::int64_t i, T* to) {
    if (width == 1)
      *to = x[i];
    else
      for (std::int64_t c = 0; c < width; ++c) to[c] = x[i * width + c];
  });
  const std::int64_t work = n + size;
  parallel_for(
      work, std::max<std::int64_t>(1, terms_a_thread / width), threads, [&](std::int64_t from, std::int64_t to) {
        const std::int64_t last = to < work ? terms.row_at(to, size) : size;
        for (std::int64_t block = terms.row_at(from, size), end = block; block < last; block = end) {
          end = std::min(block + rows_a_block, last);
          if (width == 1)
            sum_elements(sorted, terms, block, end, contract, out + block);
          else
            for (std::int64_t k = block; k < end; ++k)
              sum_narrow_row(sorted + terms.begin(k) * width, terms.count(k), width, contract, out + k * width);
          finish.rows(terms, block, end, out + block * width);
          if (end < last) REPDL_ROUTE("index_sum: second block of rows");
        }
      });
}

template <class T, class Finish>
void sum_sparse(const T* x, const std::int64_t* index, std::int64_t n, std::int64_t size, std::int64_t width,
                const Contract& contract, int threads, const Finish& finish, T* out) {
  REPDL_ROUTE("index_sum: sparse", sizeof(T));
  parallel_for(size * width, terms_a_thread, threads,
               [&](std::int64_t from, std::int64_t to) { finish.without_terms(from, to - from, out + from); });
  const SparseTerms terms(index, n, size);
  const Scratch<T> scratch(n * width + max_lanes);
  T* sorted = scratch.data();
  const std::int64_t least = std::max<std::int64_t>(1, terms_a_thread / width);
  parallel_for(n, least, threads, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t j = from; j < to; ++j) {
      const T* term = x + terms.place(j) * width;
      for (std::int64_t c = 0; c < width; ++c) sorted[j * width + c] = term[c];
    }
  });
  const std::int64_t least_rows = std::max<std::int64_t>(1, least * terms.rows() / std::max<std::int64_t>(1, n));
  parallel_for(terms.rows(), least_rows, threads, [&](std::int64_t from, std::int64_t to) {
    T sums[rows_a_block];
    for (std::int64_t block = from, end = from; block < to; block = end) {
      end = std::min(block + rows_a_block, to);
      if (width == 1) sum_elements(sorted, terms, block, end, contract, sums);
      for (std::int64_t r = block; r < end; ++r) {
        T* row = out + terms.row(r) * width;
        if (width == 1)
          *row = sums[r - block];
        else
          sum_narrow_row(sorted + terms.begin(r) * width, terms.count(r), width, contract, row);
        finish.row(terms.count(r), row - out, width, row);
      }
    }
  });
}

// Row i is that of the term at place[i], from some column on.
template <class T>
struct PlacedRows {
  const T* x;
  const std::int64_t* place;
  std::int64_t width;

  const T* operator()(std::int64_t i) const { return x + place[i] * width; }
};

template <class T, class Finish>
void sum_wide(const T* x, const std::int64_t* index, std::int64_t n, std::int64_t size, std::int64_t width,
              const Contract& contract, int threads, const Finish& finish, T* out) {
  const Scratch<std::int64_t> scratch(n + 1);
  std::int64_t* places = scratch.data();
  const Terms<std::int64_t> terms(index, n, size, TermRows<std::int64_t>{places, 1},
                                  [](std::int64_t i, std::int64_t* to) { *to = i; });
  // Tiles of columns for all threads, but of a cache line at least: then no row is too long for one thread.
  const std::int64_t wanted = (width + threads - 1) / threads;
  const std::int64_t tile = std::clamp<std::int64_t>((wanted + 63) / 64 * 64, 64, max_sum_columns);
  const std::int64_t tiles = (width + tile - 1) / tile, work = n + size;
  const std::int64_t least = std::max<std::int64_t>(1, terms_a_thread / std::min(width, tile));
  parallel_for(tiles * work, least, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin / work; t * work < end; ++t) {
      const std::int64_t first = t * tile, columns = std::min(tile, width - first);
      const std::int64_t from = terms.row_at(std::max<std::int64_t>(0, begin - t * work), size);
      const std::int64_t until = end < (t + 1) * work ? terms.row_at(end - t * work, size) : size;
      for (std::int64_t k = from; k < until; ++k) {
        const std::int64_t count = terms.count(k);
        T* to = out + k * width + first;
        sum_rows(count, columns, PlacedRows<T>{x + first, places + terms.begin(k), width}, to, contract);
        finish.row(count, k * width + first, columns, to);
      }
    }
  });
}

template <class T, class Finish>
void sum_terms(const Tensor& values, const Tensor& index, const Contract& contract, const Tensor& output,
               const ExecContext& exec, const Finish& finish) {
  const std::int64_t n = index.count(), size = output.size[0], width = output.size[1];
  if (size == 0 || width == 0) return;
  const T* x = values.as<T>();
  const auto* at = index.as<std::int64_t>();
  T* out = output.as<T>();
  const bool narrow = width * static_cast<std::int64_t>(sizeof(T)) < narrow_bytes;
  if (n >= most_counted || !narrow) return sum_wide<T>(x, at, n, size, width, contract, exec.threads, finish, out);
  const bool few = n <= size / rows_a_term;
  if (width == 1 && size < most_counted && n <= size && fits_lanes(4, contract) &&
      (few ? sum_in_lanes<OneLane<T>>(x, at, n, size, contract, exec.threads, finish, out)
           : sum_in_lanes<TwoLanes<T>>(x, at, n, size, contract, exec.threads, finish, out)))
    return;
  if (few && size >= many_rows && size < most_counted)
    return sum_sparse(x, at, n, size, width, contract, exec.threads, finish, out);
  sum_narrow(x, at, n, size, width, contract, exec.threads, finish, out);
}

template <class T>
void index_sum(const Tensor& values, const Tensor& index, std::int64_t, const Contract& contract, const Tensor& output,
               const ExecContext& exec) {
  sum_terms<T>(values, index, contract, output, exec, Sums{});
}

template <class T>
void add_index_sum(const Tensor& input, const Tensor& index, const Tensor& values, double alpha,
                   const Contract& contract, const Tensor& output, const ExecContext& exec) {
  sum_terms<T>(values, index, contract, output, exec, AddedTo<T>{input.as<T>(), output.size[1], alpha});
}

// to[i] = from[at[i]], rows of one element.
template <class T>
void select_elements(const void* from, const std::int64_t* at, std::int64_t n, void* to) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  for (std::int64_t i = 0; i < n; ++i) target[i] = source[at[i]];
}

void embedding(const Tensor& weight, const Tensor& index, std::int64_t, bool, const Contract&, const Tensor& output,
               const ExecContext& exec) {
  const std::int64_t width = weight.size[1], row = width * bytes_of(weight.dtype);
  const std::int64_t* at = index.as<std::int64_t>();
  const char* from = weight.as<char>();
  char* to = output.as<char>();
  if (row == 0) return;
  const auto select = [&](std::int64_t begin, std::int64_t end) {
    if (row == 2) return select_elements<std::uint16_t>(from, at + begin, end - begin, to + begin * row);
    if (row == 4) return select_elements<std::uint32_t>(from, at + begin, end - begin, to + begin * row);
    if (row == 8) return select_elements<std::uint64_t>(from, at + begin, end - begin, to + begin * row);
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(to + i * row, from + at[i] * row, static_cast<std::size_t>(row));
  };
  parallel_for(index.count(), std::max<std::int64_t>(1, terms_a_thread / width), exec.threads, select);
}

const AddKernel index_sum_kernels = add_kernels<&index_sum<float>, &index_sum<double>>("index_sum", Layout::rows);
const AddKernel add_index_sum_kernels =
    add_kernels<&add_index_sum<float>, &add_index_sum<double>>("add_index_sum", Layout::rows);
const AddKernel embedding_kernels = add_kernels<&embedding, &embedding>("embedding", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
