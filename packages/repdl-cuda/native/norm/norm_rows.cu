// The norms over rows, and their gradients (layer_norm.md, group_norm.md, rms_norm.md).
//
//   for each row x of (batch, groups):  (batch, groups, channels, inner), n = channels * inner
//     mean = sum(x) / n (+0 for rms_norm), rstd = 1 / sqrt(sum((x - mean)**2) / n + eps)
//     y = ((x - mean) * rstd) * weight[channel] + bias[channel]
//
// The rows of layer_norm and rms_norm are (rows, 1, n, 1). A CUDA block takes a row; the
// gradients of weight and bias are sums by the whole grid.
#include "reduce/channel_sums.hpp"
#include "base/ops.hpp"
#include "reduce/row_reduce.hpp"

namespace repdl::cuda {
namespace {

constexpr int most_threads = 256;

struct NormRows {
  std::int64_t groups, channels, inner;
  Divisor by_inner;

  explicit NormRows(const Sizes& sizes) : groups(sizes[1]), channels(sizes[2]), inner(sizes[3]), by_inner(inner) {}

  __device__ std::int64_t n() const { return channels * inner; }
  __device__ std::int64_t row() const { return blockIdx.x; }
  // The channel of element i of this CUDA block's row.
  __device__ std::int64_t channel(std::int64_t i) const { return row() % groups * channels + by_inner.quotient(i); }
};

// `means` is null for rms_norm.
template <class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_of_rows(NormRows s, const T* inputs, const T* weight, const T* bias, T* outputs, T* means, T* rstds,
                 double eps, SumOrder order) {
  const std::int64_t n = s.n();
  const T* x = inputs + s.row() * n;
  T mean = T(0);
  if (means) mean = row_sum<T>(n, order, [=](std::int64_t i) { return x[i]; }) / static_cast<T>(n);
  const T squares = row_sum<T>(n, order, [=](std::int64_t i) { return mul(x[i] - mean, x[i] - mean); });
  const T rstd = norm_rstd(squares, n, eps);
  if (threadIdx.x == 0) {
    if (means) means[s.row()] = canonical(mean);
    rstds[s.row()] = canonical(rstd);
  }
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    outputs[s.row() * n + i] = affine(normalised(x[i], mean, rstd), weight, bias, s.channel(i));
}

template <class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_row_gradients(NormRows s, const T* grads, const T* inputs, const T* means, const T* rstds, const T* weight,
                       T* results, SumOrder order) {
  const std::int64_t n = s.n();
  const T *grad = grads + s.row() * n, *x = inputs + s.row() * n;
  const T mean = means ? means[s.row()] : T(0), rstd = rstds[s.row()];
  const auto w = [=](std::int64_t i) { return weight ? mul(grad[i], weight[s.channel(i)]) : grad[i]; };
  const Pair<T> sums = row_sum<Pair<T>>(n, order, [=](std::int64_t i) {
    const T v = w(i);
    return Pair<T>(v, mul(v, normalised(x[i], mean, rstd)));
  });
  const T from_mean = means ? sums.first / static_cast<T>(n) : T(0), from_rstd = sums.second / static_cast<T>(n);
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    results[s.row() * n + i] = norm_gradient(w(i), normalised(x[i], mean, rstd), from_mean, from_rstd, rstd);
}

}  // namespace

template <class T>
void norm_rows(const std::string& op, Address x, Address weight, Address bias, Address y, Address mean, Address rstd,
               const Sizes& sizes, double eps, std::int64_t lanes, std::int64_t block, const Stream& stream) {
  const std::int64_t n = sizes.at(2) * sizes.at(3);
  const SumOrder order(lanes, block, n);
  launch(op.c_str(), norm_of_rows<T>, {sizes[0] * sizes[1]}, row_threads(n, order), 0, stream, NormRows(sizes),
         in<T>(x), in<T>(weight), in<T>(bias), out<T>(y), out<T>(mean), out<T>(rstd), eps, order);
}

template <class T>
void norm_rows_backward(const std::string& op, Address grad, Address x, Address mean, Address rstd, Address weight,
                        Address result, Address grad_weight, Address grad_bias, Address work, const Sizes& sizes,
                        std::int64_t lanes, std::int64_t block, const Stream& stream) {
  const std::int64_t n = sizes.at(2) * sizes.at(3);
  const SumOrder order(lanes, block, n);
  launch(op.c_str(), norm_row_gradients<T>, {sizes[0] * sizes[1]}, row_threads(n, order), 0, stream, NormRows(sizes),
         in<T>(grad), in<T>(x), in<T>(mean), in<T>(rstd), in<T>(weight), out<T>(result), order);
  const ChannelSums channels(op.c_str(), sizes, {sizes[1], 1}, lanes, block, stream);
  channels.run<Pair<T>>(ChannelGradients<T>{in<T>(grad), in<T>(x), in<T>(mean), in<T>(rstd)},
                        WriteGradients<T>{out<T>(grad_weight), out<T>(grad_bias)}, work);
}

template void norm_rows<float>(const std::string&, Address, Address, Address, Address, Address, Address, const Sizes&,
                               double, std::int64_t, std::int64_t, const Stream&);
template void norm_rows<double>(const std::string&, Address, Address, Address, Address, Address, Address, const Sizes&,
                                double, std::int64_t, std::int64_t, const Stream&);
template void norm_rows_backward<float>(const std::string&, Address, Address, Address, Address, Address, Address,
                                        Address, Address, Address, const Sizes&, std::int64_t, std::int64_t,
                                        const Stream&);
template void norm_rows_backward<double>(const std::string&, Address, Address, Address, Address, Address, Address,
                                         Address, Address, Address, const Sizes&, std::int64_t, std::int64_t,
                                         const Stream&);

}  // namespace repdl::cuda
