// The normalisation of each channel, and its gradients (batch_norm.md).
//
//   for c < C:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[:, c, :]) / n, var = sum((x - mean)**2) / n
//     y[:, c, :] = ((x - mean) * invstd) * weight[c] + bias[c]
//
// The sums are by the whole grid, then each thread takes an element.
#include "reduce/channel_sums.hpp"
#include "base/ops.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

template <class T>
struct Elements {
  const T* x;
  __device__ T operator()(const Where& where) const { return x[where.at[0]]; }
};

template <class T>
struct Squares {
  const T *x, *mean;
  __device__ T operator()(const Where& where) const {
    const T d = x[where.at[0]] - mean[where.at[1]];
    return mul(d, d);
  }
};

template <class T>
struct WriteMean {
  T* mean;
  std::int64_t n;
  __device__ void operator()(std::int64_t c, T sum) const { mean[c] = canonical(sum / static_cast<T>(n)); }
};

// invstd from the sum of squares, and what the running statistics become; those are null where there are none.
template <class T>
struct WriteVariance {
  const T *running_mean, *running_var, *mean;
  T *invstd, *new_mean, *new_var;
  std::int64_t n;
  double momentum, eps;

  __device__ void operator()(std::int64_t c, T squares) const {
    invstd[c] = canonical(norm_rstd(squares, n, eps));
    if (!running_mean) return;
    const T share = static_cast<T>(momentum), keep = static_cast<T>(1.0 - momentum);
    const T unbiased = squares / static_cast<T>(n - 1);
    new_mean[c] = canonical(fma(share, mean[c], mul(keep, running_mean[c])));
    new_var[c] = canonical(fma(share, unbiased, mul(keep, running_var[c])));
  }
};

template <class T>
__global__ void __launch_bounds__(threads) evaluation_statistics(const T* running_mean, const T* running_var, T* mean,
                                                                 T* invstd, std::int64_t channels, double eps) {
  const std::int64_t c = thread_index();
  if (c >= channels) return;
  mean[c] = canonical(running_mean[c]);
  invstd[c] = canonical(norm_rstd(running_var[c], 1, eps));
}

// The channel of an element of (N, C, inner).
struct ChannelOf {
  std::int64_t channels;
  Divisor by_channels, by_inner;

  explicit ChannelOf(const Sizes& sizes) : channels(sizes[1]), by_channels(sizes[1]), by_inner(sizes[2]) {}
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t plane = by_inner.quotient(i);
    return plane - by_channels.quotient(plane) * channels;
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    scale_channels(const T* x, const T* mean, const T* invstd, const T* weight, const T* bias, T* y, std::int64_t count,
                   ChannelOf channel_of) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const std::int64_t c = channel_of(i);
  y[i] = affine(normalised(x[i], mean[c], invstd[c]), weight, bias, c);
}

// grad_input from the gradients of weight and bias; n is the number of elements a channel, 0 outside training.
template <class T>
__global__ void __launch_bounds__(threads)
    channel_gradients(const T* grad, const T* x, const T* weight, const T* mean, const T* invstd, const T* grad_weight,
                      const T* grad_bias, T* y, std::int64_t count, ChannelOf channel_of, std::int64_t n) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const std::int64_t c = channel_of(i);
  const T scale = weight ? mul(weight[c], invstd[c]) : invstd[c];
  const T each = static_cast<T>(n);
  y[i] = n ? norm_gradient(grad[i], normalised(x[i], mean[c], invstd[c]), grad_bias[c] / each, grad_weight[c] / each,
                           scale)
           : canonical(mul(grad[i], scale));
}

// (N, C, inner) as channel_sums.hpp has it, each channel a group with one mean and rstd for all of N.
ChannelSums channel_sums(const char* op, const Sizes& sizes, std::int64_t lanes, std::int64_t block,
                         const Stream& stream) {
  return {op, {sizes.at(0), sizes.at(1), 1, sizes.at(2)}, {0, 1}, lanes, block, stream};
}

}  // namespace

template <class T>
void batch_norm(Address x, Address y, const std::vector<Address>& given, const std::vector<Address>& made, Address work,
                const Sizes& sizes, bool training, double momentum, double eps, std::int64_t lanes, std::int64_t block,
                const Stream& stream) {
  const std::int64_t n = sizes.at(0) * sizes.at(2), channels = sizes.at(1), count = n * channels;
  const T *running_mean = in<T>(given.at(0)), *running_var = in<T>(given.at(1));
  T *mean = out<T>(made.at(0)), *invstd = out<T>(made.at(1));
  if (training) {
    const ChannelSums sums = channel_sums("batch_norm", sizes, lanes, block, stream);
    sums.run<T>(Elements<T>{in<T>(x)}, WriteMean<T>{mean, n}, work);
    sums.run<T>(Squares<T>{in<T>(x), mean},
                WriteVariance<T>{running_mean, running_var, mean, invstd, out<T>(made.at(2)), out<T>(made.at(3)), n,
                                 momentum, eps},
                work);
  } else {
    launch("batch_norm", evaluation_statistics<T>, {ceil_div(channels, threads)}, threads, 0, stream, running_mean,
           running_var, mean, invstd, channels, eps);
  }
  launch("batch_norm", scale_channels<T>, {ceil_div(count, threads)}, threads, 0, stream, in<T>(x), mean, invstd,
         in<T>(given.at(2)), in<T>(given.at(3)), out<T>(y), count, ChannelOf(sizes));
}

template <class T>
void batch_norm_backward(Address grad, Address x, Address weight, Address mean, Address invstd, Address result,
                         Address grad_weight, Address grad_bias, Address work, const Sizes& sizes, bool training,
                         std::int64_t lanes, std::int64_t block, const Stream& stream) {
  const std::int64_t n = sizes.at(0) * sizes.at(2), channels = sizes.at(1), count = n * channels;
  channel_sums("batch_norm_backward", sizes, lanes, block, stream)
      .run<Pair<T>>(ChannelGradients<T>{in<T>(grad), in<T>(x), in<T>(mean), in<T>(invstd)},
                    WriteGradients<T>{out<T>(grad_weight), out<T>(grad_bias)}, work);
  launch("batch_norm_backward", channel_gradients<T>, {ceil_div(count, threads)}, threads, 0, stream, in<T>(grad),
         in<T>(x), in<T>(weight), in<T>(mean), in<T>(invstd), in<T>(grad_weight), in<T>(grad_bias), out<T>(result),
         count, ChannelOf(sizes), training ? n : 0);
}

template void batch_norm<float>(Address, Address, const std::vector<Address>&, const std::vector<Address>&, Address,
                                const Sizes&, bool, double, double, std::int64_t, std::int64_t, const Stream&);
template void batch_norm<double>(Address, Address, const std::vector<Address>&, const std::vector<Address>&, Address,
                                 const Sizes&, bool, double, double, std::int64_t, std::int64_t, const Stream&);
template void batch_norm_backward<float>(Address, Address, Address, Address, Address, Address, Address, Address,
                                         Address, const Sizes&, bool, std::int64_t, std::int64_t, const Stream&);
template void batch_norm_backward<double>(Address, Address, Address, Address, Address, Address, Address, Address,
                                          Address, const Sizes&, bool, std::int64_t, std::int64_t, const Stream&);

}  // namespace repdl::cuda
