// The normalisation of each channel, and its gradients (batch_norm.md).
//
//   for c < C:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[:, c, :]) / n, var = sum((x - mean)**2) / n
//     y[:, c, :] = ((x - mean) * invstd) * weight[c] + bias[c]
#include <cmath>

#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "base/tuned.hpp"
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

  // Without dimensions inside, channels lie beside each other: sums[k] = the sum of f(at, k) over rows, for channels
  // first .. first + count, `at` the offset in the tensor.
  template <class T, class F>
  void sum_beside(std::int64_t first, std::int64_t count, T* sums, const F& f) const {
    const Scratch<T> terms(sum_rows_at_once * count);
    std::int64_t calls = 0;
    const auto row = [&](std::int64_t i) {
      T* to = terms.data() + calls++ % sum_rows_at_once * count;
      for (std::int64_t k = 0; k < count; ++k) to[k] = f(i * c + first + k, first + k);
      return to;
    };
    sum_columns(n, count, false, row, sums + first, contract);
  }

  // task(first, count) for channels beside each other.
  template <class Task>
  void each_tile(const Task& task) const {
    constexpr std::int64_t least = tuned(64, 8), most = tuned(512, 8);
    const std::int64_t tile = std::clamp((c / threads + least - 1) / least * least, least, most);
    parallel_for((c + tile - 1) / tile, std::max<std::int64_t>(1, (1 << 14) / (n * tile + 1)), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t t = begin; t < end; ++t) {
                     if (t > 0) REPDL_ROUTE("batch_norm: second tile of channels");
                     task(t * tile, std::min(tile, c - t * tile));
                   }
                 });
  }

  // task(at) for rows of channels beside each other, from `at` on.
  template <class Task>
  void each_row(const Task& task) const {
    parallel_for(n, std::max<std::int64_t>(1, (1 << 14) / (c + 1)), threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) task(i * c);
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

// y = ((x - mean) * invstd) * weight + bias of channels beside each other. A weight of 1 and a bias of -0 change no
// bit.
template <class T>
void normalize_beside(const Channels& s, const T* x, const Vectors<T>& v, T* y) {
  const Scratch<T> scales(2 * s.c);
  T *weight = scales.data(), *bias = weight + s.c;
  for (std::int64_t k = 0; k < s.c; ++k)
    weight[k] = v.weight ? v.weight[k] : T(1), bias[k] = v.bias ? v.bias[k] : -T(0);
  s.each_row([&](std::int64_t at) {
    const T *from = x + at, *mean = v.mean, *invstd = v.invstd;
    T* to = y + at;
    for (std::int64_t k = 0; k < s.c; ++k) to[k] = canonical(fma((from[k] - mean[k]) * invstd[k], weight[k], bias[k]));
  });
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
  const bool beside = s.inner == 1;
  // What follows from a mean and the sum of the squared deviations, in training, or from the running statistics.
  const auto finish = [&](std::int64_t k, T mean, T q) {
    // Converted in here: only what a parallel_for calls rounds to nearest whatever the caller has set.
    const T n = static_cast<T>(s.count()), rest = static_cast<T>(s.count() - 1);
    const T share = static_cast<T>(momentum), keep = static_cast<T>(1.0 - momentum);
    if (training && v.running_mean) {
      v.new_mean[k] = canonical(fma(share, mean, keep * v.running_mean[k]));
      v.new_var[k] = canonical(fma(share, q / rest, keep * v.running_var[k]));
    }
    const T var = training ? q / n : v.running_var[k];
    v.mean[k] = canonical(training ? mean : v.running_mean[k]);
    v.invstd[k] = canonical(T(1) / std::sqrt(var + static_cast<T>(eps)));
  };
  if (beside && training) {
    s.each_tile([&](std::int64_t first, std::int64_t count) {
      REPDL_ROUTE("batch_norm: channels beside each other", sizeof(T));
      const Scratch<T> squares(s.c);
      T *q = squares.data(), *mean = v.mean;
      s.sum_beside(first, count, mean, [=](std::int64_t at, std::int64_t) { return x[at]; });
      for (std::int64_t k = first; k < first + count; ++k) mean[k] = mean[k] / static_cast<T>(s.count());
      s.sum_beside(first, count, q,
                   [=](std::int64_t at, std::int64_t k) { return (x[at] - mean[k]) * (x[at] - mean[k]); });
      for (std::int64_t k = first; k < first + count; ++k) finish(k, mean[k], q[k]);
    });
  } else {
    s.each_channel([&](std::int64_t k) {
      if (!training) return finish(k, T(0), T(0));
      const T mean = s.sum(k, [x](std::int64_t i) { return x[i]; }) / static_cast<T>(s.count());
      finish(k, mean, s.sum(k, [x, mean](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }));
    });
  }
  if (beside) return normalize_beside(s, x, v, y);
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
struct GradientsOfChannels {
  const T *grad, *x, *weight, *mean, *invstd, *to_weight, *to_bias;
};

// The gradient of the input of channels beside each other.
template <class T>
void gradient_beside(const Channels& s, const GradientsOfChannels<T>& given, bool training, T* out) {
  const Scratch<T> factors(3 * s.c);
  T *scale = factors.data(), *w = scale + s.c, *b = w + s.c;
  parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
    const T n = static_cast<T>(s.count());
    for (std::int64_t k = 0; k < s.c; ++k) {
      scale[k] = given.weight ? given.weight[k] * given.invstd[k] : given.invstd[k];
      w[k] = given.to_weight[k] / n;
      b[k] = given.to_bias[k] / n;
    }
  });
  s.each_row([&](std::int64_t at) {
    const T *g = given.grad + at, *x = given.x + at, *mean = given.mean, *invstd = given.invstd;
    T* to = out + at;
    if (training)
      for (std::int64_t k = 0; k < s.c; ++k)
        to[k] = canonical(scale[k] * fma(-((x[k] - mean[k]) * invstd[k]), w[k], g[k] - b[k]));
    else
      for (std::int64_t k = 0; k < s.c; ++k) to[k] = canonical(g[k] * scale[k]);
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
  if (s.inner == 1) {
    s.each_tile([&](std::int64_t first, std::int64_t count) {
      s.sum_beside(first, count, grad_bias, [=](std::int64_t at, std::int64_t) { return grad[at]; });
      s.sum_beside(first, count, grad_weight,
                   [=](std::int64_t at, std::int64_t k) { return grad[at] * ((x[at] - means[k]) * invstds[k]); });
      for (std::int64_t k = first; k < first + count; ++k)
        grad_bias[k] = canonical(grad_bias[k]), grad_weight[k] = canonical(grad_weight[k]);
    });
    return gradient_beside<T>(s, {grad, x, weight, means, invstds, grad_weight, grad_bias}, training, out);
  }
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
