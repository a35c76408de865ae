// The norms over rows, and their gradients (layer_norm.md, group_norm.md, rms_norm.md).
//
//   for each row x of (batch, groups):  (batch, groups, channels, inner), n = channels * inner
//     mean = sum(x) / n (+0 for rms_norm), rstd = 1 / sqrt(sum((x - mean)**2) / n + eps)
//     y = ((x - mean) * rstd) * weight[channel] + bias[channel]
//
// The rows of layer_norm and rms_norm are (rows, 1, n, 1). A CUDA block takes a row; the
// gradients of weight and bias are sums by the whole grid.
#include "reduce/channel_sums.hpp"
#include "reduce/row_reduce.hpp"

namespace repdl::cuda {
namespace {

constexpr int most_threads = 256;

struct NormRows {
  std::int64_t groups, channels, inner;
  Divisor by_inner;

  explicit NormRows(const GroupedChannels& s)
      : groups(s.groups), channels(s.channels), inner(s.inner), by_inner(inner) {}

  __device__ std::int64_t n() const { return channels * inner; }
  __device__ std::int64_t row() const { return blockIdx.x; }
  // The channels of this CUDA block's row begin here; that of element i is by_inner.quotient(i) on.
  __device__ std::int64_t first_channel() const { return row() % groups * channels; }
};

// `means` is null for rms_norm.
template <class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_of_rows(NormRows s, const T* inputs, const T* weight, const T* bias, T* outputs, T* means, T* rstds,
                 double eps, SumOrder order) {
  const std::int64_t n = s.n(), first_channel = s.first_channel();
  const T* x = inputs + s.row() * n;
  T mean = T(0);
  if (means) mean = row_sum<T>(n, order, [=](std::int64_t i) { return x[i]; }) / static_cast<T>(n);
  const T squares = row_sum<T>(n, order, [=](std::int64_t i) { return mul(x[i] - mean, x[i] - mean); });
  const T rstd = norm_rstd(squares, n, eps);
  if (threadIdx.x == 0) {
    if (means) means[s.row()] = canonical(mean);
    rstds[s.row()] = canonical(rstd);
  }
  write_row(
      outputs + s.row() * n, n,
      [=](std::int64_t i) {
        return affine(normalised(x[i], mean, rstd), weight, bias, first_channel + s.by_inner.quotient(i));
      },
      [](T y) { return y; });
}

template <class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_row_gradients(NormRows s, const T* grads, const T* inputs, const T* means, const T* rstds, const T* weight,
                       T* results, SumOrder order) {
  const std::int64_t n = s.n(), first_channel = s.first_channel();
  const T *grad = grads + s.row() * n, *x = inputs + s.row() * n;
  const T mean = means ? means[s.row()] : T(0), rstd = rstds[s.row()];
  const auto w = [=](std::int64_t i) {
    return weight ? mul(grad[i], weight[first_channel + s.by_inner.quotient(i)]) : grad[i];
  };
  const Pair<T> sums = row_sum<Pair<T>>(n, order, [=](std::int64_t i) {
    const T v = w(i);
    return Pair<T>(v, mul(v, normalised(x[i], mean, rstd)));
  });
  const T from_mean = means ? sums.first / static_cast<T>(n) : T(0), from_rstd = sums.second / static_cast<T>(n);
  write_row(
      results + s.row() * n, n, [=](std::int64_t i) { return Pair<T>(w(i), x[i]); },
      [=](const Pair<T>& of) {
        return norm_gradient(of.first, normalised(of.second, mean, rstd), from_mean, from_rstd, rstd);
      });
}

// Writes y, rstd and, where it is given, mean.
template <class T>
void normalise(const GroupedChannels& s, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
               const Contract& contract, const Tensor& y, const Tensor& mean, const Tensor& rstd, const Run& run) {
  const SumOrder order(contract, s.n());
  launch(run.op, norm_of_rows<T>, {s.rows()}, row_threads(s.n(), order), 0, stream_of(run), NormRows(s), x.as<T>(),
         weight.as<T>(), bias.as<T>(), y.as<T>(), mean.as<T>(), rstd.as<T>(), eps, order);
}

// Writes the gradients of x, of weight and, where it is wanted, of bias.
template <class T>
void gradients(const GroupedChannels& s, const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
               const Tensor& weight, const Contract& contract, const Tensor& result, const Tensor& grad_weight,
               const Tensor& grad_bias, const Run& run) {
  const SumOrder order(contract, s.n());
  launch(run.op, norm_row_gradients<T>, {s.rows()}, row_threads(s.n(), order), 0, stream_of(run), NormRows(s),
         grad.as<T>(), x.as<T>(), mean.as<T>(), rstd.as<T>(), weight.as<T>(), result.as<T>(), order);
  ChannelSums(s, {s.groups, 1}, contract, run)
      .sum<Pair<T>>(ChannelGradients<T>{grad.as<T>(), x.as<T>(), mean.as<T>(), rstd.as<T>()},
                    WriteGradients<T>{grad_weight.as<T>(), grad_bias.as<T>()});
}

template <class T>
void layer_norm(const Tensor& input, Ints normalized, const Tensor& weight, const Tensor& bias, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const Run& run) {
  normalise<T>(normalized_rows(input, normalized), input, weight, bias, eps, contract, output, mean, rstd, run);
}
template <class T>
void layer_norm_backward(const Tensor& grad, const Tensor& input, Ints normalized, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& output,
                         const Tensor& grad_weight, const Tensor& grad_bias, const Run& run) {
  gradients<T>(normalized_rows(input, normalized), grad, input, mean, rstd, weight, contract, output, grad_weight,
               grad_bias, run);
}

template <class T>
void rms_norm(const Tensor& input, Ints normalized, const Tensor& weight, double eps, const Contract& contract,
              const Tensor& output, const Tensor& rstd, const Run& run) {
  normalise<T>(normalized_rows(input, normalized), input, weight, {}, eps, contract, output, {}, rstd, run);
}
template <class T>
void rms_norm_backward(const Tensor& grad, const Tensor& input, Ints normalized, const Tensor& rstd,
                       const Tensor& weight, const Contract& contract, const Tensor& output, const Tensor& grad_weight,
                       const Run& run) {
  gradients<T>(normalized_rows(input, normalized), grad, input, {}, rstd, weight, contract, output, grad_weight, {},
               run);
}

template <class T>
void group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const Run& run) {
  normalise<T>(grouped(input, num_groups), input, weight, bias, eps, contract, output, mean, rstd, run);
}
template <class T>
void group_norm_backward(const Tensor& grad, const Tensor& input, std::int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& output,
                         const Tensor& grad_weight, const Tensor& grad_bias, const Run& run) {
  gradients<T>(grouped(input, num_groups), grad, input, mean, rstd, weight, contract, output, grad_weight, grad_bias,
               run);
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
