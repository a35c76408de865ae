// The normalisation of each channel, and its gradients (batch_norm.md).
//
//   for c < C:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[:, c, :]) / n, var = sum((x - mean)**2) / n
//     y[:, c, :] = ((x - mean) * invstd) * weight[c] + bias[c]
//
// The sums are by the whole grid, then each thread takes some elements: packs where a channel is made of them.
#include "reduce/channel_sums.hpp"
#include "base/rounded_on_host.hpp"
#include "base/pack.hpp"

namespace repdl::cuda {
inline namespace batch_norm_cu {

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

// The numbers of a call, rounded.
template <class T>
struct Options {
  T share, keep, eps;

  Options(double momentum, double given_eps)
      : share(static_cast<T>(momentum)), keep(static_cast<T>(1.0 - momentum)), eps(static_cast<T>(given_eps)) {}
};

// invstd from the sum of squares, and what the running statistics become; those are null where there are none.
template <class T>
struct WriteVariance {
  const T *running_mean, *running_var, *mean;
  T *invstd, *new_mean, *new_var;
  std::int64_t n;
  Options<T> options;

  __device__ void operator()(std::int64_t c, T squares) const {
    invstd[c] = canonical(norm_rstd(squares, n, options.eps));
    if (!running_mean) return;
    const T share = options.share, keep = options.keep;
    const T unbiased = squares / static_cast<T>(n - 1);
    new_mean[c] = canonical(fma(share, mean[c], mul(keep, running_mean[c])));
    new_var[c] = canonical(fma(share, unbiased, mul(keep, running_var[c])));
  }
};

template <class T>
__global__ void __launch_bounds__(threads) evaluation_statistics(const T* running_mean, const T* running_var, T* mean,
                                                                 T* invstd, std::int64_t channels, T eps) {
  const std::int64_t c = thread_index();
  if (c >= channels) return;
  mean[c] = canonical(running_mean[c]);
  invstd[c] = canonical(norm_rstd(running_var[c], 1, eps));
}

// The channel of an element of (N, C, inner).
struct ChannelOf {
  std::int64_t channels;
  FastDivmod64 by_channels, by_inner;

  explicit ChannelOf(const Around& of) : channels(of.n), by_channels(of.n), by_inner(of.inner) {}
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t plane = by_inner.quotient(i);
    return plane - by_channels.quotient(plane) * channels;
  }
};

// What all elements of a channel share; weight and bias where they are given.
template <class T>
struct Channel {
  T mean, invstd, weight, bias;

  Channel() = default;
  __device__ Channel(std::int64_t c, const T* means, const T* invstds, const T* weights, const T* biases)
      : mean(means[c]), invstd(invstds[c]), weight(weights ? weights[c] : T(0)), bias(biases ? biases[c] : T(0)) {}
};

// A pack of elements of one channel.
template <class T, int count>
struct Scaled {
  Pack<T, count> x;
  Channel<T> channel;
};

template <class T>
__global__ void __launch_bounds__(threads)
    scale_channels(const T* x, const T* mean, const T* invstd, const T* weight, const T* bias, T* y, std::int64_t count,
                   std::int64_t inner, ChannelOf channel_of) {
  with_packs<T>(whole_packs(inner, x, y), [&](auto width) {
    each_tile_pack<width()>(
        count,
        [&](std::int64_t i) {
          return Scaled<T, width()>{load_pack<width()>(x + i), {channel_of(i), mean, invstd, weight, bias}};
        },
        [&](std::int64_t i, const auto& of) {
          const Channel<T>& c = of.channel;
          Pack<T, width()> result;
#pragma unroll
          for (int q = 0; q < width(); ++q)
            result.of[q] = affine(normalised(of.x.of[q], c.mean, c.invstd), weight ? &c.weight : nullptr,
                                  bias ? &c.bias : nullptr, 0);
          store_pack(y + i, result);
        });
  });
}

// A pack of elements of one channel, and the sums over it.
template <class T, int count>
struct ScaledGradients {
  TwoPacks<T, count> of;
  Channel<T> channel;
  T grad_weight, grad_bias;
};

// grad_input from the gradients of weight and bias; n is the number of elements a channel, 0 outside training.
template <class T>
__global__ void __launch_bounds__(threads)
    channel_gradients(const T* grad, const T* x, const T* weight, const T* mean, const T* invstd, const T* grad_weight,
                      const T* grad_bias, T* y, std::int64_t count, std::int64_t inner, ChannelOf channel_of,
                      std::int64_t n) {
  const T each = static_cast<T>(n);
  with_packs<T>(whole_packs(inner, grad, x, y), [&](auto width) {
    each_tile_pack<width()>(
        count,
        [&](std::int64_t i) {
          const std::int64_t c = channel_of(i);
          return ScaledGradients<T, width()>{
              two_packs<width()>(grad + i, x + i), {c, mean, invstd, weight, nullptr}, grad_weight[c], grad_bias[c]};
        },
        [&](std::int64_t i, const auto& loaded) {
          const Channel<T>& c = loaded.channel;
          const T scale = weight ? mul(c.weight, c.invstd) : c.invstd;
          const T from_mean = loaded.grad_bias / each, from_rstd = loaded.grad_weight / each;
          Pack<T, width()> result;
#pragma unroll
          for (int q = 0; q < width(); ++q) {
            const T g = loaded.of.first.of[q];
            result.of[q] =
                n ? norm_gradient(g, normalised(loaded.of.second.of[q], c.mean, c.invstd), from_mean, from_rstd, scale)
                  : canonical(mul(g, scale));
          }
          store_pack(y + i, result);
        });
  });
}

// (N, C, inner) as channel_sums.hpp has it, each channel a group with one mean and rstd for all of N.
ChannelSums channel_sums(const Around& of, const Contract& contract, const ExecContext& exec) {
  return {{of.outer, of.n, 1, of.inner}, {0, 1}, contract, exec};
}

template <class T>
void batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                const Tensor& bias, bool training, double momentum, double eps, const Contract& contract,
                const Tensor& output, const Tensor& mean, const Tensor& invstd, const Tensor& new_mean,
                const Tensor& new_var, const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const Around of = around(input, 1);
  const std::int64_t n = of.outer * of.inner, channels = of.n, count = of.count();
  const auto options = rounded_on_host<Options<T>>(momentum, eps);
  if (training) {
    const ChannelSums sums = channel_sums(of, contract, exec);
    sums.sum<T>(Elements<T>{input.as<T>()}, WriteMean<T>{mean.as<T>(), n});
    sums.sum<T>(Squares<T>{input.as<T>(), mean.as<T>()},
                WriteVariance<T>{running_mean.as<T>(), running_var.as<T>(), mean.as<T>(), invstd.as<T>(),
                                 new_mean.as<T>(), new_var.as<T>(), n, options});
  } else {
    launch(exec.op, evaluation_statistics<T>, {ceil_div(channels, threads)}, threads, 0, stream, running_mean.as<T>(),
           running_var.as<T>(), mean.as<T>(), invstd.as<T>(), channels, options.eps);
  }
  launch(exec.op, scale_channels<T>, {ceil_div(count, tile_of(threads))}, threads, 0, stream, input.as<T>(),
         mean.as<T>(), invstd.as<T>(), weight.as<T>(), bias.as<T>(), output.as<T>(), count, of.inner, ChannelOf(of));
}

template <class T>
void batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mean,
                         const Tensor& invstd, bool training, const Contract& contract, const Tensor& output,
                         const Tensor& grad_weight, const Tensor& grad_bias, const ExecContext& exec) {
  const Around of = around(input, 1);
  const std::int64_t count = of.count();
  channel_sums(of, contract, exec)
      .sum<TwoSums<T>>(ChannelGradients<T>{grad.as<T>(), input.as<T>(), mean.as<T>(), invstd.as<T>()},
                       WriteGradients<T>{grad_weight.as<T>(), grad_bias.as<T>()});
  launch(exec.op, channel_gradients<T>, {ceil_div(count, tile_of(threads))}, threads, 0, stream_of(exec), grad.as<T>(),
         input.as<T>(), weight.as<T>(), mean.as<T>(), invstd.as<T>(), grad_weight.as<T>(), grad_bias.as<T>(),
         output.as<T>(), count, of.inner, ChannelOf(of), training ? of.outer * of.inner : 0);
}

const AddKernel batch_norm_kernels = add_kernels<&batch_norm<float>, &batch_norm<double>>("batch_norm", Layout::rows);
const AddKernel batch_norm_backward_kernels =
    add_kernels<&batch_norm_backward<float>, &batch_norm_backward<double>>("batch_norm_backward", Layout::rows);

}  // namespace batch_norm_cu
}  // namespace repdl::cuda
