// softmax and log_softmax of rows, and their gradients (softmax.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     m = max(x[i, :]);  e = exp(x[i, :] - m);  s = sum(e)
//     y[i, :] = e / s  or  (x[i, :] - m) - log(s)
//
// A row of up to 32 blocks of v1 is kept in registers (register_rows.hpp), of floats. Of others a CUDA block takes a
// row, and caches it in shared memory if it is short enough (row_reduce.hpp).
#include "reduce/register_rows.hpp"
#include "reduce/row_reduce.hpp"
#include "repdl/exact/doubles.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cuda {
inline namespace softmax_cu {

constexpr int most_threads = 256;  // __launch_bounds__ with two blocks: without the number ptxas spills

template <class T, bool caches>
__global__ void __launch_bounds__(most_threads, 2)
    softmax_rows(const T* __restrict__ inputs, T* __restrict__ outputs, std::int64_t n, SumOrder order) {
  const T* x = inputs + blockIdx.x * n;
  T* y = outputs + blockIdx.x * n;
  T* e = caches ? dynamic_shared<T>() : y;
  const T m = row_max<caches>(x, e, n);
  T s;
  if constexpr (caches) {
    with_packs<T>(whole_packs(n, e), [&](auto width) {
      each_pack<width(), 1>(
          n, [&](std::int64_t i) { return load_pack<width()>(e + i); },
          [&](std::int64_t i, auto pack) {
            for (T& value : pack.of) value = exact::exp(value - m);
            store_pack(e + i, pack);
          });
    });
    __syncthreads();
    s = row_sum<T>(n, order, [=](std::int64_t i) { return e[i]; });
  } else {
    s = row_sum<T>(n, order, [=](std::int64_t i) { return y[i] = exact::exp(x[i] - m); });
  }
  write_row(
      y, n, whole_packs(n, e, y), [=](std::int64_t i, auto width) { return load_pack<width()>(e + i); },
      [=](int q, const auto& of) { return of.of[q] / s; });
}

template <class T, bool caches>
__global__ void __launch_bounds__(most_threads, 2)
    log_softmax_rows(const T* inputs, T* outputs, std::int64_t n, SumOrder order) {
  const T* given = inputs + blockIdx.x * n;
  T* y = outputs + blockIdx.x * n;
  const T* x = caches ? dynamic_shared<T>() : given;
  const T m = row_max<caches>(given, dynamic_shared<T>(), n);
  const T log_s = exact::log(row_sum<T>(n, order, [=](std::int64_t i) { return exact::exp(x[i] - m); }));
  write_row(
      y, n, whole_packs(n, x, y), [=](std::int64_t i, auto width) { return load_pack<width()>(x + i); },
      [=](int q, const auto& of) { return (of.of[q] - m) - log_s; });
}

template <class T, bool caches>
__global__ void __launch_bounds__(most_threads, 2)
    softmax_gradients(const T* grads, const T* outputs, T* results, std::int64_t n, SumOrder order) {
  const T *grad = grads + blockIdx.x * n, *y = outputs + blockIdx.x * n;
  if constexpr (caches) {
    T* cached = dynamic_shared<T>();
    cache_row(grad, cached, n);
    cache_row(y, cached + n, n);
    grad = cached, y = cached + n;
    __syncthreads();
  }
  T* to = results + blockIdx.x * n;
  const T t = row_sum<T>(n, order, [=](std::int64_t i) { return mul(grad[i], y[i]); });
  write_row(
      to, n, whole_packs(n, grad, y, to),
      [=](std::int64_t i, auto width) { return two_packs<width()>(grad + i, y + i); },
      [=](int q, const auto& of) { return mul(of.first.of[q] - t, of.second.of[q]); });
}

template <class T, bool caches>
__global__ void __launch_bounds__(most_threads, 2)
    log_softmax_gradients(const T* grads, const T* outputs, T* results, std::int64_t n, SumOrder order) {
  const T *grad = grads + blockIdx.x * n, *y = outputs + blockIdx.x * n;
  if constexpr (caches) {
    cache_row(grad, dynamic_shared<T>(), n);
    grad = dynamic_shared<T>();
    __syncthreads();
  }
  T* to = results + blockIdx.x * n;
  const T t = row_sum<T>(n, order, [=](std::int64_t i) { return grad[i]; });
  write_row(
      to, n, whole_packs(n, grad, y, to),
      [=](std::int64_t i, auto width) { return two_packs<width()>(grad + i, y + i); },
      [=](int q, const auto& of) { return of.first.of[q] - mul(exact::exp(of.second.of[q]), t); });
}

// e[i] = e[i] / s, rounded once, for e[i] >= 0 and a sum 1 <= s < 2**16, or NaN. The first quotient is less than two
// units in the last place off, the second one less than one, and of such a quotient, its exact residual and the
// rounded reciprocal the last step makes the rounded one (Markstein, IBM J. Res. Dev. 34(1), 1990). Residuals are
// exact for a quotient of 2**-102 or more.
template <int count>
__device__ void divide_all(float (&e)[count], float s) {
  constexpr std::uint32_t bits_of_least = (127u - 86u) << 23;
  std::uint32_t least = 0xffffffffu;  // of the bits of e less 1, so that 0 is none of the small ones
#pragma unroll
  for (int i = 0; i < count; ++i) {
    std::uint32_t bits;
    memcpy(&bits, &e[i], sizeof bits);
    least = bits - 1 < least ? bits - 1 : least;
  }
  if (least >= bits_of_least) {
    const float reciprocal = 1.0f / s;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float q = mul(e[i], reciprocal);
      q = fma(fma(-s, q, e[i]), reciprocal, q);
      e[i] = fma(fma(-s, q, e[i]), reciprocal, q);
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) e[i] = e[i] / s;
  }
}

template <class Rows>
__global__ void __launch_bounds__(Rows::threads(1), Rows::at_once(1))
    softmax_in_registers(std::int64_t rows, int n, const float* inputs, float* outputs) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  const bool whole = whole_pairs(n, inputs, outputs);
  float e[Rows::elements];
  mine.load_all(mine.of(inputs), whole, -exact::infinity(), e);
  const float s = register_exp_sum<true, Rows>(e, register_max<Rows>(e));
  divide_all(e, s);
  mine.store(mine.of(outputs), whole, 0, e);
}

template <class Rows>
__global__ void __launch_bounds__(Rows::threads(1), Rows::at_once(1))
    log_softmax_in_registers(std::int64_t rows, int n, const float* inputs, float* outputs) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  const bool whole = whole_pairs(n, inputs, outputs);
  float x[Rows::elements];
  mine.load_all(mine.of(inputs), whole, -exact::infinity(), x);
  const float m = register_max<Rows>(x), log_s = exact::log(register_exp_sum<false, Rows>(x, m));
#pragma unroll
  for (int i = 0; i < Rows::elements; ++i) x[i] = (x[i] - m) - log_s;
  mine.store(mine.of(outputs), whole, 0, x);
}

template <class Rows>
__global__ void __launch_bounds__(Rows::threads(2), Rows::at_once(2))
    softmax_gradients_in_registers(std::int64_t rows, int n, const float* grads, const float* outputs, float* results) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  const bool whole = whole_pairs(n, grads, outputs, results);
  float grad[Rows::elements], y[Rows::elements];
  mine.load_all(mine.of(grads), whole, 0.0f, grad);
  mine.load_all(mine.of(outputs), whole, 0.0f, y);
  const float t = register_sum<Rows, 0, float>([&](int i) { return mul(grad[i], y[i]); });
#pragma unroll
  for (int i = 0; i < Rows::elements; ++i) y[i] = mul(grad[i] - t, y[i]);
  mine.store(mine.of(results), whole, 0, y);
}

template <class Rows>
__global__ void __launch_bounds__(Rows::threads(1), Rows::at_once(1))
    log_softmax_gradients_in_registers(std::int64_t rows, int n, const float* grads, const float* outputs,
                                       float* results) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  const bool whole = whole_pairs(n, grads, outputs, results);
  float grad[Rows::elements];
  mine.load_all(mine.of(grads), whole, 0.0f, grad);
  const float t = register_sum<Rows, 0, float>([&](int i) { return grad[i]; });
  mine.template each_batch<8>([&](int begin, auto width) {
    float y[width()] = {};
    mine.load(mine.of(outputs), whole, begin, y);
    warp_exps(y);
#pragma unroll
    for (int i = 0; i < width(); ++i) y[i] = grad[begin + i] - mul(y[i], t);
    mine.store(mine.of(results), whole, begin, y);
  });
}

template <class T>
using Forward = RowKernels<void (*)(const T*, T*, std::int64_t, SumOrder)>;
template <class T>
using Backward = RowKernels<void (*)(const T*, const T*, T*, std::int64_t, SumOrder)>;

// `kept`: the kernel of rows in registers, kept(RegisterRows<...>()).
template <class T, class Kept>
void forward(const Forward<T>& kernels, const Kept& kept, const Tensor& x, const Contract& contract, const Tensor& y,
             const ExecContext& exec) {
  if (y.count() == 0) return;
  const Around rows = rows_of(x);
  const SumOrder order(contract, rows.n);
  if constexpr (std::is_same_v<T, float>) {
    if (in_registers(rows.n, order, 1))
      return with_register_rows<false>(rows.n, [&](auto how) {
        launch_register_rows(kept(how), rows.outer, rows.n, exec, x.as<float>(), y.as<float>());
      });
  }
  launch_rows<T>(kernels, 1, rows.outer, rows.n, row_threads(rows.n, order), exec, x.as<T>(), y.as<T>(), rows.n, order);
}

// `values`: how many numbers an element of a row are cached.
template <class T, class Kept>
void backward(const Backward<T>& kernels, const Kept& kept, int values, const Tensor& grad, const Tensor& output,
              const Contract& contract, const Tensor& result, const ExecContext& exec) {
  if (result.count() == 0) return;
  const Around rows = rows_of(output);
  const SumOrder order(contract, rows.n);
  if constexpr (std::is_same_v<T, float>) {
    if (in_registers(rows.n, order, values))
      return with_register_rows<false>(rows.n, [&](auto how) {
        launch_register_rows(kept(how), rows.outer, rows.n, exec, grad.as<float>(), output.as<float>(),
                             result.as<float>());
      });
  }
  launch_rows<T>(kernels, values, rows.outer, rows.n, row_threads(rows.n, order), exec, grad.as<T>(), output.as<T>(),
                 result.as<T>(), rows.n, order);
}

template <class T>
void softmax(const Tensor& x, std::int64_t, const Contract& contract, const Tensor& y, const ExecContext& exec) {
  const auto kept = [](auto how) { return softmax_in_registers<decltype(how)>; };
  forward<T>({softmax_rows<T, true>, softmax_rows<T, false>}, kept, x, contract, y, exec);
}
template <class T>
void log_softmax(const Tensor& x, std::int64_t, const Contract& contract, const Tensor& y, const ExecContext& exec) {
  const auto kept = [](auto how) { return log_softmax_in_registers<decltype(how)>; };
  forward<T>({log_softmax_rows<T, true>, log_softmax_rows<T, false>}, kept, x, contract, y, exec);
}
template <class T>
void softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t, const Contract& contract,
                      const Tensor& result, const ExecContext& exec) {
  const auto kept = [](auto how) { return softmax_gradients_in_registers<decltype(how)>; };
  backward<T>({softmax_gradients<T, true>, softmax_gradients<T, false>}, kept, 2, grad, output, contract, result, exec);
}
template <class T>
void log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t, const Contract& contract,
                          const Tensor& result, const ExecContext& exec) {
  const auto kept = [](auto how) { return log_softmax_gradients_in_registers<decltype(how)>; };
  backward<T>({log_softmax_gradients<T, true>, log_softmax_gradients<T, false>}, kept, 1, grad, output, contract,
              result, exec);
}

const AddKernel softmax_kernels = add_kernels<&softmax<float>, &softmax<double>>("softmax", Layout::last);
const AddKernel log_softmax_kernels =
    add_kernels<&log_softmax<float>, &log_softmax<double>>("log_softmax", Layout::last);
const AddKernel softmax_backward_kernels =
    add_kernels<&softmax_backward<float>, &softmax_backward<double>>("softmax_backward", Layout::last);
const AddKernel log_softmax_backward_kernels =
    add_kernels<&log_softmax_backward<float>, &log_softmax_backward<double>>("log_softmax_backward", Layout::last);

}  // namespace softmax_cu
}  // namespace repdl::cuda
