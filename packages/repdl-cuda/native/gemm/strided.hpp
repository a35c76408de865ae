// Operands and outputs of a product (gemm.hpp) that lie in memory by strides.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "gemm/gemm.hpp"
#include "base/strides.hpp"

namespace repdl::cuda {

inline bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

// A matrix (rows, k) for each product of a batch: the rows of A, or the columns of B.
template <class T>
class Strided {
 public:
  Strided(const char* op, const T* base, const Sizes& batch, const Sizes& batch_stride, std::int64_t rows,
          std::int64_t row_stride, std::int64_t k_stride)
      : base_(base), row_stride_(narrow(op, row_stride)), k_stride_(narrow(op, k_stride)),
        batch_(op, batch, {batch_stride}) {
    constexpr std::int64_t vector = 16 / sizeof(T);
    const bool aligned =
        is_aligned(base) && rows % vector == 0 && k_stride % vector == 0 &&
        std::all_of(batch_stride.begin(), batch_stride.end(), [](std::int64_t stride) { return stride % vector == 0; });
    if (row_stride == 1)
      order_ = aligned ? Order::vectors : Order::rows;
    else
      order_ = std::abs(k_stride) < std::abs(row_stride) ? Order::k : Order::rows;
  }

  // One thread's share of every slice: neighbouring threads along what lies closer in memory.
  template <class Tiling>
  class Loader {
    static constexpr int tile = Tiling::tile, threads = Tiling::threads, vector = Tiling::vector;
    static constexpr int run = 8;  // threads along k: 32 bytes of floats

   public:
    __device__ Loader(const Strided& x, Slice<Tiling>* slices, int product, int first_row, int rows, int first_k)
        : x_(x), to_(slices) {
      const int t = anew(threadIdx.x);
      constexpr int vectors = tile / vector;
      const int row = x.order_ == Order::k ? t / run : x.order_ == Order::rows ? t % tile : t % vectors * vector;
      const int k = x.order_ == Order::k ? t % run : x.order_ == Order::rows ? t / tile : t / vectors;
      rows_ = rows - first_row - row;
      to_ = to_ + (k * Tiling::width + row) * sizeof(T);
      from_ = x.base_ + x.batch_.offsets(product).at[0] + std::int64_t{first_row + row} * x.row_stride_ +
              (std::int64_t{first_k} + k) * x.k_stride_;
    }

    __device__ void load(int stage, int length) {
      const int t = anew(threadIdx.x);
      switch (x_.order_) {
        case Order::k: copy<threads / run, run, 1>(stage, length, t % run); break;
        case Order::rows: copy<tile, threads / tile, 1>(stage, length, t / tile); break;
        case Order::vectors: copy<tile, threads * vector / tile, vector>(stage, length, t / (tile / vector)); break;
      }
      from_ += std::int64_t{length} * x_.k_stride_;
    }

   private:
    // Copies of `each` elements, row_step rows and k_step columns apart.
    template <int row_step, int k_step, int each>
    __device__ void copy(int stage, int length, int first_k) {
      const SharedPointer to = to_ + stage * sizeof(Slice<Tiling>);
#pragma unroll
      for (int k = 0; k < Tiling::depth; k += k_step) {
        const int rows = first_k + k < length ? rows_ : 0;
        const T* from = from_ + std::int64_t{x_.k_stride_} * k;
#pragma unroll
        for (int row = 0; row < tile; row += row_step)
          if (row < rows)
            (to + (k * Tiling::width + row) * sizeof(T))
                .template copy_from<each * sizeof(T)>(from + std::int64_t{x_.row_stride_} * row);
      }
    }

    const Strided& x_;
    const T* from_;     // this thread's first element of the next slice,
    SharedPointer to_;  // where it goes,
    int rows_;          // and the rows from there on
  };

 private:
  enum class Order { k, rows, vectors };

  static int narrow(const char* op, std::int64_t stride) {
    if (std::abs(stride) > 2147483647)
      throw std::runtime_error(std::string(op) + ": a stride is " + std::to_string(stride) +
                               " elements, expected less than 2147483648; call .contiguous() on the tensors first");
    return static_cast<int>(stride);
  }

  const T* base_;
  int row_stride_, k_stride_;  // that a tile's offsets take one instruction
  Order order_;
  Shape<1> batch_;
};

// Contiguous outputs (batch, m, n), to which a bias (n) may be added.
template <class T>
struct Rows {
  T* base;
  const T* bias;  // or null
  std::int64_t batch_stride, row_stride, bias_stride;
  bool wide;  // vectors of columns are aligned

  Rows(T* y, const Tensor& vector, std::int64_t m, std::int64_t n)
      : base(y), bias(vector.as<T>()), batch_stride(m * n), row_stride(n),
        bias_stride(vector.given ? vector.stride[0] : 0),
        wide(is_aligned(y) && n % static_cast<std::int64_t>(16 / sizeof(T)) == 0) {}

  __device__ T* start_of(int product) const { return base + product * batch_stride; }
  __device__ std::int64_t column(int j) const { return j; }
  __device__ T finish(T sum, int, int, int j) const {
    return canonical(bias == nullptr ? sum : sum + bias[j * bias_stride]);
  }
};

}  // namespace repdl::cuda
