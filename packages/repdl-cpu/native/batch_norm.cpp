// The normalisation of each channel, and its gradients (batch_norm.md).
//
//   for c < C:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[:, c, :]) / n, var = sum((x - mean)**2) / n
//     y[:, c, :] = ((x - mean) * invstd) * weight[c] + bias[c]
#include <cmath>

#include "bind.hpp"
#include "simd.hpp"
#include "sum.hpp"
#include "threads.hpp"

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
  float sum(std::int64_t k, const F& f) const {
    return sum_filled(count(), contract, [&](std::int64_t start, std::int64_t length, float* dst) {
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

struct Vectors {
  const float *running_mean, *running_var, *weight, *bias;  // each (C) or null
  float *mean, *invstd, *new_mean, *new_var;
};

void batch_norm(const Channels& s, const float* x, float* y, const Vectors& v, bool training, double momentum,
                double eps) {
  s.each_channel([&](std::int64_t k) {
    // Converted in here: only the parts of a parallel_for round to nearest whatever the caller has set.
    const float n = static_cast<float>(s.count()), rest = static_cast<float>(s.count() - 1);
    const float share = static_cast<float>(momentum), keep = static_cast<float>(1.0 - momentum);
    const float epsilon = static_cast<float>(eps);
    float mean, var;
    if (training) {
      mean = s.sum(k, [x](std::int64_t i) { return x[i]; }) / n;
      const float q = s.sum(k, [x, mean](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
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
    v.invstd[k] = canonical(1.0f / std::sqrt(var + epsilon));
  });
  s.each_plane([&](std::int64_t k, std::int64_t at, std::int64_t length) {
    const float mean = v.mean[k], invstd = v.invstd[k];
    const float *from = x + at;
    float* to = y + at;
    if (v.weight && v.bias) {
      const float weight = v.weight[k], bias = v.bias[k];
      std::int64_t i = 0;
      for (; i + Vec::width <= length; i += Vec::width) {
        const Vec h = (Vec::load(from + i) - Vec::set1(mean)) * Vec::set1(invstd);
        canonical(fma(h, Vec::set1(weight), Vec::set1(bias))).store(to + i);
      }
      for (; i < length; ++i) to[i] = canonical(fma((from[i] - mean) * invstd, weight, bias));
    } else if (v.weight) {
      const float weight = v.weight[k];
      for (std::int64_t i = 0; i < length; ++i) to[i] = canonical((from[i] - mean) * invstd * weight);
    } else if (v.bias) {
      const float bias = v.bias[k];
      for (std::int64_t i = 0; i < length; ++i) to[i] = canonical((from[i] - mean) * invstd + bias);
    } else {
      for (std::int64_t i = 0; i < length; ++i) to[i] = canonical((from[i] - mean) * invstd);
    }
  });
}

void batch_norm_backward(const Channels& s, const float* grad, const float* x, const float* weight,
                         const float* means, const float* invstds, float* out, float* grad_weight, float* grad_bias,
                         bool training) {
  s.each_channel([&](std::int64_t k) {
    const float mean = means[k], invstd = invstds[k];
    grad_bias[k] = canonical(s.sum(k, [grad](std::int64_t i) { return grad[i]; }));
    grad_weight[k] =
        canonical(s.sum(k, [=](std::int64_t i) { return grad[i] * ((x[i] - mean) * invstd); }));
  });
  s.each_plane([&](std::int64_t k, std::int64_t at, std::int64_t length) {
    const float mean = means[k], invstd = invstds[k];
    const float scale = weight ? weight[k] * invstd : invstd;
    const float n = static_cast<float>(s.count());
    const float b = grad_bias[k] / n, w = grad_weight[k] / n;
    const float *g = grad + at, *from = x + at;
    float* to = out + at;
    std::int64_t i = 0;
    if (!training) {
      for (; i < length; ++i) to[i] = canonical(g[i] * scale);
      return;
    }
    for (; i + Vec::width <= length; i += Vec::width) {
      const Vec h = (Vec::load(from + i) - Vec::set1(mean)) * Vec::set1(invstd);
      const Vec minus_h = Vec::set1(-1.0f) * h;
      canonical(Vec::set1(scale) * fma(minus_h, Vec::set1(w), Vec::load(g + i) - Vec::set1(b))).store(to + i);
    }
    for (; i < length; ++i) to[i] = canonical(scale * fma(-((from[i] - mean) * invstd), w, g[i] - b));
  });
}

Channels channels(const Sizes& sizes, std::int64_t lanes, std::int64_t block, int threads) {
  return {sizes[0], sizes[1], sizes[2], sum_order(lanes, block), threads};
}

}  // namespace

void bind_batch_norm(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "batch_norm",
      [](Address x, Address y, const std::vector<Address>& given, const std::vector<Address>& made,
         const Sizes& sizes, bool training, double momentum, double eps, std::int64_t lanes, std::int64_t block,
         int threads) {
        const Vectors v{in(given[0]), in(given[1]), in(given[2]), in(given[3]),
                        out(made[0]), out(made[1]), out(made[2]), out(made[3])};
        batch_norm(channels(sizes, lanes, block, threads), in(x), out(y), v, training, momentum, eps);
      },
      release);
  module.def(
      "batch_norm_backward",
      [](Address grad, Address x, Address weight, Address mean, Address invstd, Address result, Address grad_weight,
         Address grad_bias, const Sizes& sizes, bool training, std::int64_t lanes, std::int64_t block, int threads) {
        batch_norm_backward(channels(sizes, lanes, block, threads), in(grad), in(x), in(weight), in(mean), in(invstd),
                            out(result), out(grad_weight), out(grad_bias), training);
      },
      release);
}

}  // namespace repdl::cpu
