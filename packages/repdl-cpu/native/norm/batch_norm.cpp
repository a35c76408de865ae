// The normalisation of each channel, and its gradients (batch_norm.md).
//
//   for c < C:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[:, c, :]) / n, var = sum((x - mean)**2) / n
//     y[:, c, :] = ((x - mean) * invstd) * weight[c] + bias[c]
#include <cmath>

#include "base/bind.hpp"
#include "simd/simd_double.hpp"
#include "reduce/sum.hpp"
#include "base/threads.hpp"

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

template <class T>
void batch_norm(const Channels& s, const T* x, T* y, const Vectors<T>& v, bool training, double momentum, double eps) {
  s.each_channel([&](std::int64_t k) {
    // Converted in here: only the parts of a parallel_for round to nearest whatever the caller has set.
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
void batch_norm_backward(const Channels& s, const T* grad, const T* x, const T* weight, const T* means,
                         const T* invstds, T* out, T* grad_weight, T* grad_bias, bool training) {
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

Channels channels(const Sizes& sizes, std::int64_t lanes, std::int64_t block, int threads) {
  return {sizes[0], sizes[1], sizes[2], sum_order(lanes, block), threads};
}

}  // namespace

template <class T>
void bind_batch_norm(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "batch_norm",
      [](Address x, Address y, const std::vector<Address>& given, const std::vector<Address>& made, const Sizes& sizes,
         bool training, double momentum, double eps, std::int64_t lanes, std::int64_t block, int threads) {
        const Vectors<T> v{in<T>(given[0]), in<T>(given[1]), in<T>(given[2]), in<T>(given[3]),
                           out<T>(made[0]), out<T>(made[1]), out<T>(made[2]), out<T>(made[3])};
        batch_norm(channels(sizes, lanes, block, threads), in<T>(x), out<T>(y), v, training, momentum, eps);
      },
      release);
  module.def(
      "batch_norm_backward",
      [](Address grad, Address x, Address weight, Address mean, Address invstd, Address result, Address grad_weight,
         Address grad_bias, const Sizes& sizes, bool training, std::int64_t lanes, std::int64_t block, int threads) {
        batch_norm_backward(channels(sizes, lanes, block, threads), in<T>(grad), in<T>(x), in<T>(weight), in<T>(mean),
                            in<T>(invstd), out<T>(result), out<T>(grad_weight), out<T>(grad_bias), training);
      },
      release);
}

template void bind_batch_norm<float>(py::module_&);
template void bind_batch_norm<double>(py::module_&);

}  // namespace repdl::cpu
