// The sum of the rows of equal index (index_sum.md, sum.hpp), and the selection of rows.
//
//   for k < size:  (n, width), (n) -> (size, width)
//     out[k] = sum of values[i] over the i with index[i] = k, i ascending
//   for i < n:  (rows, width), (n) -> (n, width)
//     out[i] = weight[index[i]], bytes that are moved
#include <cstring>

#include "reduce/sum.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t terms_a_thread = 1 << 14;  // elements worth a thread

// The terms of each row: those of row k are i = place[j] for begin[k] <= j < begin[k + 1], ascending.
class Terms {
 public:
  Terms(const std::int64_t* index, std::int64_t n, std::int64_t size) : places_(n + 1), begins_(size + 2) {
    std::int64_t* next = begins_.data() + 1;  // next[k]: first the number of terms, then where the next one goes
    std::fill(begins_.data(), begins_.data() + size + 2, 0);
    for (std::int64_t i = 0; i < n; ++i) ++next[index[i] + 1];
    for (std::int64_t k = 0; k < size; ++k) next[k + 1] += next[k];
    for (std::int64_t i = 0; i < n; ++i) places_.data()[next[index[i]]++] = i;  // next[k] is begin[k + 1] afterwards
  }

  const std::int64_t* place(std::int64_t k) const { return places_.data() + begins_.data()[k]; }
  std::int64_t count(std::int64_t k) const { return begins_.data()[k + 1] - begins_.data()[k]; }

  // The first row at which as many as `work` rows and terms lie before it: shares of threads are as long as their work.
  std::int64_t row_at(std::int64_t work, std::int64_t size) const {
    std::int64_t low = 0, high = size;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (begins_.data()[middle] + middle < work)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

 private:
  Scratch<std::int64_t> places_, begins_;
};

template <class T>
void index_sum(const Tensor& values, const Tensor& index, std::int64_t size, const Contract& contract,
               const Tensor& output, const Run& run) {
  const std::int64_t n = index.count(), width = output.size[1];
  if (size == 0 || width == 0) return;
  const Terms terms(index.as<std::int64_t>(), n, size);
  const T* x = values.as<T>();
  T* out = output.as<T>();
  // Tiles of columns for all threads, but of a cache line at least: then no row is too long for one thread.
  const std::int64_t wanted = (width + run.threads - 1) / run.threads;
  const std::int64_t tile = std::clamp<std::int64_t>((wanted + 63) / 64 * 64, 64, max_sum_columns);
  const std::int64_t tiles = (width + tile - 1) / tile, work = n + size;
  const std::int64_t least = std::max<std::int64_t>(1, terms_a_thread / std::min(width, tile));
  parallel_for(tiles * work, least, run.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin / work; t * work < end; ++t) {
      const std::int64_t first = t * tile, columns = std::min(tile, width - first);
      const std::int64_t from = terms.row_at(std::max<std::int64_t>(0, begin - t * work), size);
      const std::int64_t until = end < (t + 1) * work ? terms.row_at(end - t * work, size) : size;
      for (std::int64_t k = from; k < until; ++k) {
        const std::int64_t* place = terms.place(k);
        T* to = out + k * width + first;
        sum_columns(
            terms.count(k), columns, false, [=](std::int64_t i) { return x + place[i] * width + first; }, to, contract);
        for (std::int64_t c = 0; c < columns; ++c) to[c] = canonical(to[c]);
      }
    }
  });
}

std::int64_t bytes_of(DType dtype) {
  return dtype == DType::float64 ? 8 : dtype == DType::float32 ? 4 : 2;  // no other dtype gets here
}

void embedding(const Tensor& weight, const Tensor& index, std::int64_t, bool, const Contract&, const Tensor& output,
               const Run& run) {
  const std::int64_t width = weight.size[1], row = width * bytes_of(weight.dtype);
  const std::int64_t* at = index.as<std::int64_t>();
  const char* from = weight.as<char>();
  char* to = output.as<char>();
  if (row == 0) return;
  parallel_for(index.count(), std::max<std::int64_t>(1, terms_a_thread / width), run.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   std::memcpy(to + i * row, from + at[i] * row, static_cast<std::size_t>(row));
               });
}

const AddKernel index_sum_kernels = add_kernels<&index_sum<float>, &index_sum<double>>("index_sum", Layout::rows);
const AddKernel embedding_kernels = add_kernels<&embedding, &embedding>("embedding", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
