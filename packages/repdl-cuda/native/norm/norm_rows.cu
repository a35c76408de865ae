// The norms over rows, and their gradients (layer_norm.md, group_norm.md, rms_norm.md).
//
//   for each row x of (batch, groups):  (batch, groups, channels, inner), n = channels * inner
//     mean = sum(x) / n (+0 for rms_norm), rstd = 1 / sqrt(sum((x - mean)**2) / n + eps)
//     y = ((x - mean) * rstd) * weight[channel] + bias[channel]
//
// The rows of layer_norm and rms_norm are (rows, 1, n, 1). A CUDA block takes a row; the
// gradients of weight and bias are sums by the whole grid.
#include "base/rounded_on_host.hpp"
#include "reduce/channel_sums.hpp"
#include "reduce/row_reduce.hpp"

namespace repdl::cuda {
namespace {

constexpr int most_threads = 256;

struct NormRows {
  std::int64_t groups, channels, inner;
  FastDivmod64 by_inner;

  explicit NormRows(const GroupedChannels& s)
      : groups(s.groups), channels(s.channels), inner(s.inner), by_inner(inner) {}

  __device__ std::int64_t n() const { return channels * inner; }
  __device__ std::int64_t row() const { return blockIdx.x; }
  // The channels of this CUDA block's row begin here; that of element i is by_inner.quotient(i) on.
  __device__ std::int64_t first_channel() const { return row() % groups * channels; }
};

// The elements of weight or bias for a pack of elements of a row, or null; packs need channels that are packs too.
template <int count, class T>
struct OfChannels {
  Pack<T, count> pack;
  bool given;

  OfChannels() = default;
  __device__ OfChannels(const NormRows& s, const T* values, std::int64_t i) : pack{}, given(values) {
    if (!values) return;
    if (s.inner == 1) {
      pack = load_pack<count>(values + s.first_channel() + i);
    } else {
      const T value = values[s.first_channel() + s.by_inner.quotient(i)];
#pragma unroll
      for (int q = 0; q < count; ++q) pack.of[q] = value;
    }
  }
  __device__ const T* values() const { return given ? pack.of : nullptr; }
};

// Whether packs of a row have elements of one channel, or packs of weight and bias.
template <class T>
__device__ bool whole_channels(const NormRows& s, const T* weight, const T* bias) {
  return s.inner == 1 ? packed(weight) && packed(bias) : s.inner % whole_pack<T> == 0;
}

// What the results of a pack of elements are made of.
template <class T, int count>
struct Normed {
  Pack<T, count> x;
  OfChannels<count, T> weight, bias;
};

// `means` is null for rms_norm.
template <bool caches, class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_of_rows(NormRows s, const T* inputs, const T* weight, const T* bias, T* outputs, T* means, T* rstds, T eps,
                 SumOrder order) {
  const std::int64_t n = s.n();
  const T* x = inputs + s.row() * n;
  if constexpr (caches) {
    cache_row(x, dynamic_shared<T>(), n);
    x = dynamic_shared<T>();
    __syncthreads();
  }
  T mean = T(0);
  if (means) mean = row_sum<T>(n, order, [=](std::int64_t i) { return x[i]; }) / static_cast<T>(n);
  const T squares = row_sum<T>(n, order, [=](std::int64_t i) { return mul(x[i] - mean, x[i] - mean); });
  const T rstd = norm_rstd(squares, n, eps);
  if (threadIdx.x == 0) {
    if (means) means[s.row()] = canonical(mean);
    rstds[s.row()] = canonical(rstd);
  }
  T* y = outputs + s.row() * n;
  write_row(
      y, n, whole_packs(n, x, y) && whole_channels(s, weight, bias),
      [=](std::int64_t i, auto width) {
        return Normed<T, width()>{load_pack<width()>(x + i), {s, weight, i}, {s, bias, i}};
      },
      [=](int q, const auto& of) {
        return affine(normalised(of.x.of[q], mean, rstd), of.weight.values(), of.bias.values(), q);
      });
}

// Of each element w, the gradient of its h, and h: cached, or made again of grad, x and weight.
template <bool caches, class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_row_gradients(NormRows s, const T* grads, const T* inputs, const T* means, const T* rstds, const T* weight,
                       T* results, SumOrder order) {
  const std::int64_t n = s.n();
  const T *grad = grads + s.row() * n, *x = inputs + s.row() * n;
  T* y = results + s.row() * n;
  const T mean = means ? means[s.row()] : T(0), rstd = rstds[s.row()];
  const auto load = [=](std::int64_t i, auto width) { return two_packs<width()>(grad + i, x + i); };
  const auto made = [=](std::int64_t i, auto of) {
    constexpr int count = sizeof of.first / sizeof(T);
    const OfChannels<count, T> w(s, weight, i);
#pragma unroll
    for (int q = 0; q < count; ++q) {
      if (w.given) of.first.of[q] = mul(of.first.of[q], w.pack.of[q]);
      of.second.of[q] = normalised(of.second.of[q], mean, rstd);
    }
    return of;
  };
  const bool whole = whole_packs(n, grad, x, y) && whole_channels<T>(s, weight, nullptr);
  const auto finish = [=](const auto& h_of) {
    const TwoSums<T> sums = row_sum<TwoSums<T>>(n, order, [=](std::int64_t i) {
      const TwoSums<T> of = h_of(i);
      return TwoSums<T>(of.first, mul(of.first, of.second));
    });
    return TwoSums<T>(means ? sums.first / static_cast<T>(n) : T(0), sums.second / static_cast<T>(n));
  };
  const auto write = [=](const TwoSums<T>& from, const auto& load) {
    write_row(y, n, whole, load, [=](int q, const auto& of) {
      return norm_gradient(of.first.of[q], of.second.of[q], from.first, from.second, rstd);
    });
  };
  if constexpr (caches) {
    T *w = dynamic_shared<T>(), *h = w + n;
    with_packs<T>(whole, [&](auto width) {
      each_pack<width(), 2>(
          n, [&](std::int64_t i) { return load(i, width); },
          [&](std::int64_t i, const auto& loaded) {
            const auto of = made(i, loaded);
            store_pack(w + i, of.first);
            store_pack(h + i, of.second);
          });
    });
    __syncthreads();
    write(finish([=](std::int64_t i) { return TwoSums<T>(w[i], h[i]); }),
          [=](std::int64_t i, auto width) { return two_packs<width()>(w + i, h + i); });
  } else {
    write(finish([=](std::int64_t i) {
            const auto of = made(i, load(i, Width<1>()));
            return TwoSums<T>(of.first.of[0], of.second.of[0]);
          }),
          [=](std::int64_t i, auto width) { return made(i, load(i, width)); });
  }
}

// Writes y, rstd and, where it is given, mean.
template <class T>
void normalise(const GroupedChannels& s, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
               const Contract& contract, const Tensor& y, const Tensor& mean, const Tensor& rstd,
               const ExecContext& exec) {
  const SumOrder order(contract, s.n());
  launch_rows<T>(RowKernels<decltype(&norm_of_rows<true, T>)>{norm_of_rows<true, T>, norm_of_rows<false, T>}, 1,
                 s.rows(), s.n(), row_threads(s.n(), order), exec, NormRows(s), x.as<T>(), weight.as<T>(), bias.as<T>(),
                 y.as<T>(), mean.as<T>(), rstd.as<T>(), rounded_on_host<T>(eps), order);
}

// Writes the gradients of x, of weight and, where it is wanted, of bias.
template <class T>
void gradients(const GroupedChannels& s, const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
               const Tensor& weight, const Contract& contract, const Tensor& result, const Tensor& grad_weight,
               const Tensor& grad_bias, const ExecContext& exec) {
  const SumOrder order(contract, s.n());
  launch_rows<T>(
      RowKernels<decltype(&norm_row_gradients<true, T>)>{norm_row_gradients<true, T>, norm_row_gradients<false, T>}, 2,
      s.rows(), s.n(), row_threads(s.n(), order), exec, NormRows(s), grad.as<T>(), x.as<T>(), mean.as<T>(),
      rstd.as<T>(), weight.as<T>(), result.as<T>(), order);
  ChannelSums(s, {s.groups, 1}, contract, exec)
      .sum<TwoSums<T>>(ChannelGradients<T>{grad.as<T>(), x.as<T>(), mean.as<T>(), rstd.as<T>()},
                       WriteGradients<T>{grad_weight.as<T>(), grad_bias.as<T>()});
}

template <class T>
void layer_norm(const Tensor& input, Ints normalized, const Tensor& weight, const Tensor& bias, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const ExecContext& exec) {
  normalise<T>(normalized_rows(input, normalized), input, weight, bias, eps, contract, output, mean, rstd, exec);
}
template <class T>
void layer_norm_backward(const Tensor& grad, const Tensor& input, Ints normalized, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& output,
                         const Tensor& grad_weight, const Tensor& grad_bias, const ExecContext& exec) {
  gradients<T>(normalized_rows(input, normalized), grad, input, mean, rstd, weight, contract, output, grad_weight,
               grad_bias, exec);
}

template <class T>
void rms_norm(const Tensor& input, Ints normalized, const Tensor& weight, double eps, const Contract& contract,
              const Tensor& output, const Tensor& rstd, const ExecContext& exec) {
  normalise<T>(normalized_rows(input, normalized), input, weight, {}, eps, contract, output, {}, rstd, exec);
}
template <class T>
void rms_norm_backward(const Tensor& grad, const Tensor& input, Ints normalized, const Tensor& rstd,
                       const Tensor& weight, const Contract& contract, const Tensor& output, const Tensor& grad_weight,
                       const ExecContext& exec) {
  gradients<T>(normalized_rows(input, normalized), grad, input, {}, rstd, weight, contract, output, grad_weight, {},
               exec);
}

template <class T>
void group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const ExecContext& exec) {
  normalise<T>(grouped(input, num_groups), input, weight, bias, eps, contract, output, mean, rstd, exec);
}
template <class T>
void group_norm_backward(const Tensor& grad, const Tensor& input, std::int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& output,
                         const Tensor& grad_weight, const Tensor& grad_bias, const ExecContext& exec) {
  gradients<T>(grouped(input, num_groups), grad, input, mean, rstd, weight, contract, output, grad_weight, grad_bias,
               exec);
}

[[maybe_unused]] const AddKernel norm_kernels[] = {
    add_kernels<&layer_norm<float>, &layer_norm<double>>("layer_norm", Layout::rows),
    add_kernels<&layer_norm_backward<float>, &layer_norm_backward<double>>("layer_norm_backward", Layout::rows),
    add_kernels<&rms_norm<float>, &rms_norm<double>>("rms_norm", Layout::rows),
    add_kernels<&rms_norm_backward<float>, &rms_norm_backward<double>>("rms_norm_backward", Layout::rows),
    add_kernels<&group_norm<float>, &group_norm<double>>("group_norm", Layout::rows),
    add_kernels<&group_norm_backward<float>, &group_norm_backward<double>>("group_norm_backward", Layout::rows),
};

}  // namespace
}  // namespace repdl::cuda
