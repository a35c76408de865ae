// The normalisation of each channel, and its gradients (batch_norm.md).
//
//   for c < C:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[:, c, :]) / n, var = sum((x - mean)**2) / n
//     y[:, c, :] = ((x - mean) * invstd) * weight[c] + bias[c]
#include <cmath>

#include "base/threads.hpp"
#include "reduce/sum.hpp"
#include "repdl/shape/around.hpp"
#include "simd/simd_double.hpp"

namespace repdl::cpu {
namespace {

// Sizes of (N, C, inner), and the passes over one channel or one plane of it.
struct Channels {
  std::int64_t n, c, inner;
  Contract contract;
  int threads;

  std::int64_t count() const { return n * inner; }

  // sum of f(position) over channel k, position the offset in the tensor; runs are contiguous.
  template <class F>
  auto sum(std::int64_t k, const F& f) const {
    using T = std::decay_t<decltype(f(k))>;
    return sum_filled<T>(count(), contract, [&](std::int64_t start, std::int64_t length, T* dst) {
      while (length > 0) {
        const std::int64_t j = start % inner, run = std::min(length, inner - j);
        const std::int64_t at = (start / inner * c + k) * inner + j;
        for (std::int64_t i = 0; i < run; ++i) dst[i] = f(at + i);
        start += run;
        dst += run;
        length -= run;
      }
    });
  }

  template <class F>
  void each_channel(const F& f) const {
    parallel_for(c, std::max<std::int64_t>(1, (1 << 14) / (count() + 1)), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t k = begin; k < end; ++k) f(k);
                 });
  }

  // f(channel, offset, length) for every contiguous run of one channel.
  template <class F>
  void each_plane(const F& f) const {
    parallel_for(n * c, std::max<std::int64_t>(1, (1 << 14) / (inner + 1)), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t p = begin; p < end; ++p) f(p % c, p * inner, inner);
                 });
  }
};

template <class T>
struct Vectors {
  const T *running_mean, *running_var, *weight, *bias;  // each (C) or null
  T *mean, *invstd, *new_mean, *new_var;
};

Channels channels_of(const Tensor& input, const Contract& contract, const ExecContext& exec) {
  const Around of = around(input, 1);
  return {of.outer, of.n, of.inner, contract, exec.threads};
}

template <class T>
void batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                const Tensor& bias, bool training, double momentum, double eps, const Contract& contract,
                const Tensor& output, const Tensor& mean_made, const Tensor& invstd_made, const Tensor& new_mean,
                const Tensor& new_var, const ExecContext& exec) {
  const Channels s = channels_of(input, contract, exec);
  const Vectors<T> v{running_mean.as<T>(), running_var.as<T>(), weight.as<T>(),   bias.as<T>(),
                     mean_made.as<T>(),    invstd_made.as<T>(), new_mean.as<T>(), new_var.as<T>()};
  const T* x = input.as<T>();
  T* y = output.as<T>();
  s.each_channel([&](std::int64_t k) {
    // Converted in here: only what a parallel_for calls rounds to nearest whatever the caller has set.
    const T n = static_cast<T>(s.count()), rest = static_cast<T>(s.count() - 1);
    const T share = static_cast<T>(momentum), keep = static_cast<T>(1.0 - momentum);
    const T epsilon = static_cast<T>(eps);
    T mean, var;
    if (training) {
      mean = s.sum(k, [x](std::int64_t i) { return x[i]; }) / n;
      const T q = s.sum(k, [x, mean](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
      var = q / n;
      if (v.running_mean) {
        v.new_mean[k] = canonical(fma(share, mean, keep * v.running_mean[k]));
        v.new_var[k] = canonical(fma(share, q / rest, keep * v.running_var[k]));
      }
    } else {
      mean = v.running_mean[k];
      var = v.running_var[k];
    }
    v.mean[k] = canonical(mean);
    v.invstd[k] = canonical(T(1) / std::sqrt(var + epsilon));
  });
  s.each_plane([&](std::int64_t k, std::int64_t at, std::int64_t length) {
    const T mean = v.mean[k], invstd = v.invstd[k];
    const T* from = x + at;
    T* to = y + at;
    if (v.weight && v.bias) {
      const T weight = v.weight[k], bias = v.bias[k];
      std::int64_t i = 0;
      for (; i + VecOf<T>::width <= length; i += VecOf<T>::width) {
        const VecOf<T> h = (VecOf<T>::load(from + i) - VecOf<T>::set1(mean)) * VecOf<T>::set1(invstd);
        canonical(fma(h, VecOf<T>::set1(weight), VecOf<T>::set1(bias))).store(to + i);
      }
      for (; i < length; ++i) to[i] = canonical(fma((from[i] - mean) * invstd, weight, bias));
    } else if (v.weight) {
      const T weight = v.weight[k];
      for (std::int64_t i = 0; i < length; ++i) to[i] = canonical((from[i] - mean) * invstd * weight);
    } else if (v.bias) {
      const T bias = v.bias[k];
      for (std::int64_t i = 0; i < length; ++i) to[i] = canonical((from[i] - mean) * invstd + bias);
    } else {
      for (std::int64_t i = 0; i < length; ++i) to[i] = canonical((from[i] - mean) * invstd);
    }
  });
}

template <class T>
void batch_norm_backward(const Tensor& grads, const Tensor& input, const Tensor& weights, const Tensor& mean_given,
                         const Tensor& invstd_given, bool training, const Contract& contract, const Tensor& output,
                         const Tensor& to_weight, const Tensor& to_bias, const ExecContext& exec) {
  const Channels s = channels_of(input, contract, exec);
  const T *grad = grads.as<T>(), *x = input.as<T>(), *weight = weights.as<T>();
  const T *means = mean_given.as<T>(), *invstds = invstd_given.as<T>();
  T *out = output.as<T>(), *grad_weight = to_weight.as<T>(), *grad_bias = to_bias.as<T>();
  s.each_channel([&](std::int64_t k) {
    const T mean = means[k], invstd = invstds[k];
    grad_bias[k] = canonical(s.sum(k, [grad](std::int64_t i) { return grad[i]; }));
    grad_weight[k] = canonical(s.sum(k, [=](std::int64_t i) { return grad[i] * ((x[i] - mean) * invstd); }));
  });
  s.each_plane([&](std::int64_t k, std::int64_t at, std::int64_t length) {
    const T mean = means[k], invstd = invstds[k];
    const T scale = weight ? weight[k] * invstd : invstd;
    const T n = static_cast<T>(s.count());
    const T b = grad_bias[k] / n, w = grad_weight[k] / n;
    const T *g = grad + at, *from = x + at;
    T* to = out + at;
    std::int64_t i = 0;
    if (!training) {
      for (; i < length; ++i) to[i] = canonical(g[i] * scale);
      return;
    }
    for (; i + VecOf<T>::width <= length; i += VecOf<T>::width) {
      const VecOf<T> h = (VecOf<T>::load(from + i) - VecOf<T>::set1(mean)) * VecOf<T>::set1(invstd);
      const VecOf<T> minus_h = VecOf<T>::set1(-T(1)) * h;
      canonical(VecOf<T>::set1(scale) * fma(minus_h, VecOf<T>::set1(w), VecOf<T>::load(g + i) - VecOf<T>::set1(b)))
          .store(to + i);
    }
    for (; i < length; ++i) to[i] = canonical(scale * fma(-((from[i] - mean) * invstd), w, g[i] - b));
  });
}

const AddKernel batch_norm_kernels = add_kernels<&batch_norm<float>, &batch_norm<double>>("batch_norm", Layout::rows);
const AddKernel batch_norm_backward_kernels =
    add_kernels<&batch_norm_backward<float>, &batch_norm_backward<double>>("batch_norm_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
