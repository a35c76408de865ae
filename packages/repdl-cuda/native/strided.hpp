// Operands and outputs of a product (gemm.hpp) that lie in memory by strides.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "gemm.hpp"
#include "strides.hpp"

namespace repdl::cuda {

// A matrix (rows, k) for each product of a batch: the rows of A, or the columns of B.
template <class T>
class Strided {
 public:
  Strided(const char* op, Address address, const Sizes& batch, const Sizes& batch_stride, std::int64_t rows,
          std::int64_t row_stride, std::int64_t k_stride)
      : base_(in<T>(address)), row_stride_(row_stride), k_stride_(k_stride), batch_(op, batch, {batch_stride}) {
    constexpr std::int64_t vector = 16 / sizeof(T);
    const bool aligned = address % 16 == 0 && rows % vector == 0 && k_stride % vector == 0 &&
                         std::all_of(batch_stride.begin(), batch_stride.end(),
                                     [](std::int64_t stride) { return stride % vector == 0; });
    if (row_stride == 1)
      order_ = aligned ? Order::vectors : Order::rows;
    else
      order_ = std::abs(k_stride) < std::abs(row_stride) ? Order::k : Order::rows;
  }

  // One thread's share of every slice: elements `passes` apart, neighbouring threads along
  // what lies closer in memory.
  template <class Tiling>
  class Loader {
    static constexpr int tile = Tiling::tile, threads = Tiling::threads, vector = Tiling::vector;
    static constexpr int passes = tile * Tiling::depth / threads;

   public:
    __device__ Loader(const Strided& x, int product, int first_row, int rows, int first_k) : x_(x) {
      const int t = threadIdx.x;
      switch (x.order_) {
        case Order::k: k_ = t % Tiling::depth, row_ = t / Tiling::depth; break;
        case Order::rows: k_ = t / tile, row_ = t % tile; break;
        case Order::vectors: k_ = t / (tile / vector), row_ = t % (tile / vector) * vector; break;
      }
      rows_ = rows - first_row;
      from_ = x.base_ + x.batch_.offsets(product).at[0] + (first_row + row_) * x.row_stride_ +
              (std::int64_t{first_k} + k_) * x.k_stride_;
    }

    __device__ void load(Slice<Tiling>& slice, int length) {
      switch (x_.order_) {
        case Order::k: copy<threads / Tiling::depth, 0, 1>(slice, length); break;
        case Order::rows: copy<0, threads / tile, 1>(slice, length); break;
        case Order::vectors: copy<0, threads * vector / tile, vector>(slice, length); break;
      }
      from_ += length * x_.k_stride_;
    }

   private:
    template <int row_step, int k_step, int each>
    __device__ void copy(Slice<Tiling>& slice, int length) {
#pragma unroll
      for (int pass = 0; pass < passes / each; ++pass) {
        const int row = row_ + pass * row_step, k = k_ + pass * k_step;
        if (row < rows_ && k < length)
          __pipeline_memcpy_async(&slice[k][row], from_ + pass * (row_step * x_.row_stride_ + k_step * x_.k_stride_),
                                  each * sizeof(T));
      }
    }

    const Strided& x_;
    const T* from_;
    int k_, row_, rows_;
  };

 private:
  enum class Order { k, rows, vectors };

  const T* base_;
  std::int64_t row_stride_, k_stride_;
  Order order_;
  Shape<1> batch_;
};

// Contiguous outputs (batch, m, n), to which a bias (n) may be added.
template <class T>
struct Rows {
  T* base;
  const T* bias;  // or null
  std::int64_t batch_stride, row_stride;
  bool wide;  // vectors of columns are aligned

  Rows(Address y, Address bias, std::int64_t m, std::int64_t n)
      : base(out<T>(y)), bias(in<T>(bias)), batch_stride(m * n), row_stride(n),
        wide(y % 16 == 0 && n % static_cast<std::int64_t>(16 / sizeof(T)) == 0) {}

  __device__ T* start(int product) const { return base + product * batch_stride; }
  __device__ std::int64_t column(int j) const { return j; }
  __device__ T finish(T sum, int, int, int j) const { return canonical(bias == nullptr ? sum : sum + bias[j]); }
};

}  // namespace repdl::cuda
