// The normalisation of each row, and its gradients (layer_norm.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     mean = sum(x[i, :]) / n, rstd = 1 / sqrt(sum((x[i, :] - mean)**2) / n + eps)
//     y[i, :] = ((x[i, :] - mean) * rstd) * weight + bias
#include "base/bind.hpp"
#include "step/tensor_lists.hpp"
#include "norm/norm.hpp"

namespace repdl::cpu {
namespace {

struct Rows {
  std::int64_t rows, n;
  Contract contract;
  int threads;
};

void layer_norm(const Rows& s, const float* x, const float* weight, const float* bias, double eps, float* y,
                float* means, float* rstds) {
  const std::int64_t n = s.n;
  const bool past = past_caches(y, s.rows, n);
  const auto each = [](const float* vector) { return Each{vector}; };
  parallel_for(s.rows, norm_grain(n), s.threads, [&](std::int64_t begin, std::int64_t end) {
    with_factor(weight, each, [&](auto w) {
      with_factor(bias, each, [&](auto b) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* from = x + row * n;
          const Moments m = row_moments(from, n, eps, s.contract, prefetch_distance(n, end - 1 - row));
          means[row] = canonical(m.mean);
          rstds[row] = canonical(m.rstd);
          scale_row(from, m, w, b, y + row * n, n, past);
        }
        put_fence();
      });
    });
  });
}

void layer_norm_backward(const Rows& s, const float* grad, const float* x, const float* mean, const float* rstd,
                         const float* weight, float* out, float* grad_weight, float* grad_bias) {
  const std::int64_t n = s.n;
  const bool past = past_caches(out, s.rows, n);
  ColumnSums columns(s.rows, 2 * n, s.contract);
  const float* sums = nullptr;
  const std::int64_t lanes = s.contract.sum_lanes;
  with_option(weight != nullptr, [&](auto weighted) {
    sums = columns.run(s.threads, [=, &s](auto rows, std::int64_t row, std::int64_t next, float* lane) {
      constexpr int R = decltype(rows)::value;
      std::array<Moments, R> moments;
      for (int r = 0; r < R; ++r) moments[r] = {mean[row + r * lanes], rstd[row + r * lanes]};
      const GradientRow given{grad + row * n, x + row * n, weight, out + row * n, lanes * n};
      const auto add = [=](std::int64_t i, auto part, auto g, auto h) {
        Vec to_weight = part.load(lane + i), to_bias = part.load(lane + n + i);
        for (int r = 0; r < R; ++r) {
          to_weight = to_weight + g[r] * h[r];
          to_bias = to_bias + g[r];
        }
        part.store(lane + i, to_weight);
        part.store(lane + n + i, to_bias);
      };
      gradient_rows<R>(given, moments, n, s.contract, next * n, past, weighted, add);
    });
  });
  for (std::int64_t i = 0; i < n; ++i) {
    grad_weight[i] = canonical(sums[i]);
    grad_bias[i] = canonical(sums[n + i]);
  }
}

}  // namespace

template <>
void bind_layer_norm<float>(py::module_& module) {
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
