// The normalisation of each row, and its gradients (layer_norm.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     mean = sum(x[i, :]) / n, rstd = 1 / sqrt(sum((x[i, :] - mean)**2) / n + eps)
//     y[i, :] = ((x[i, :] - mean) * rstd) * weight + bias
#include <cmath>

#include "bind.hpp"
#include "elements.hpp"
#include "norm.hpp"

namespace repdl::cpu {
namespace {

struct Rows {
  std::int64_t rows, n;
  Contract contract;
  int threads;
};

// y = h * weight + bias, with weight and bias or without.
template <class Weighted, class Biased>
void scale_row(const float* x, float mean, float rstd, const float* weight, const float* bias, float* y,
               std::int64_t n, Weighted, Biased) {
  sweep(n, [=](std::int64_t i, auto type) {
    using V = decltype(type);
    const V h = (V::load(x + i) - V::set1(mean)) * V::set1(rstd);
    if constexpr (Weighted::value && Biased::value)
      canonical(fma(h, V::load(weight + i), V::load(bias + i))).store(y + i);
    else if constexpr (Weighted::value)
      canonical(h * V::load(weight + i)).store(y + i);
    else if constexpr (Biased::value)
      canonical(h + V::load(bias + i)).store(y + i);
    else
      canonical(h).store(y + i);
  });
}

void layer_norm(const Rows& s, const float* x, const float* weight, const float* bias, double eps, float* y,
                float* means, float* rstds) {
  const std::int64_t n = s.n;
  parallel_for(s.rows, norm_grain(n), s.threads, [&](std::int64_t begin, std::int64_t end) {
    // Converted in here: only the parts of a parallel_for round to nearest whatever the caller has set.
    const float count = static_cast<float>(n), epsilon = static_cast<float>(eps);
    with_option(weight != nullptr, [&](auto weighted) {
      with_option(bias != nullptr, [&](auto biased) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* from = x + row * n;
          const float mean = sum_row(from, n, 1, s.contract) / count;
          const float var = sum_each(n, s.contract, [=](std::int64_t i, auto type) {
                              using V = decltype(type);
                              const V d = V::load(from + i) - V::set1(mean);
                              return d * d;
                            }) / count;
          const float rstd = 1.0f / std::sqrt(var + epsilon);
          means[row] = canonical(mean);
          rstds[row] = canonical(rstd);
          scale_row(from, mean, rstd, weight, bias, y + row * n, n, weighted, biased);
        }
      });
    });
  });
}

// One row: grad_input to out, grad * h added to sums[0 .. n), grad to sums[n .. 2n).
template <class Weighted>
void row_backward(const Rows& s, const float* g, const float* x, float mean, float rstd, const float* weight,
                  float* out, float* sums, Weighted) {
  const std::int64_t n = s.n;
  const auto w = [=](std::int64_t i, auto type) {
    using V = decltype(type);
    if constexpr (Weighted::value)
      return V::load(g + i) * V::load(weight + i);
    else
      return V::load(g + i);
  };
  const auto h = [=](std::int64_t i, auto type) {
    using V = decltype(type);
    return (V::load(x + i) - V::set1(mean)) * V::set1(rstd);
  };
  const float count = static_cast<float>(n);
  const float a = sum_each(n, s.contract, w) / count;
  const float b =
      -(sum_each(n, s.contract, [=](std::int64_t i, auto type) { return w(i, type) * h(i, type); }) / count);
  sweep(n, [=](std::int64_t i, auto type) {
    using V = decltype(type);
    const V scaled = h(i, type), grad = V::load(g + i);
    // h * -b and -h * b are the same number.
    canonical(V::set1(rstd) * fma(scaled, V::set1(b), w(i, type) - V::set1(a))).store(out + i);
    (V::load(sums + i) + grad * scaled).store(sums + i);
    (V::load(sums + n + i) + grad).store(sums + n + i);
  });
}

void layer_norm_backward(const Rows& s, const float* grad, const float* x, const float* mean, const float* rstd,
                         const float* weight, float* out, float* grad_weight, float* grad_bias) {
  const std::int64_t n = s.n;
  ColumnSums columns(s.rows, 2 * n, s.contract);
  const float* sums = nullptr;
  with_option(weight != nullptr, [&](auto weighted) {
    sums = columns.run(s.threads, [&, weighted](std::int64_t row, float* lane) {
      row_backward(s, grad + row * n, x + row * n, mean[row], rstd[row], weight, out + row * n, lane, weighted);
    });
  });
  for (std::int64_t i = 0; i < n; ++i) {
    grad_weight[i] = canonical(sums[i]);
    grad_bias[i] = canonical(sums[n + i]);
  }
}

}  // namespace

void bind_layer_norm(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "layer_norm",
      [](Address x, Address weight, Address bias, Address y, Address mean, Address rstd, std::int64_t rows,
         std::int64_t n, double eps, std::int64_t lanes, std::int64_t block, int threads) {
        layer_norm({rows, n, sum_order(lanes, block), threads}, in(x), in(weight), in(bias), eps, out(y), out(mean),
                   out(rstd));
      },
      release);
  module.def(
      "layer_norm_backward",
      [](Address grad, Address x, Address mean, Address rstd, Address weight, Address result, Address grad_weight,
         Address grad_bias, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block, int threads) {
        layer_norm_backward({rows, n, sum_order(lanes, block), threads}, in(grad), in(x), in(mean), in(rstd),
                            in(weight), out(result), out(grad_weight), out(grad_bias));
      },
      release);
}

}  // namespace repdl::cpu
