// The normalisation of each row, and its gradients (layer_norm.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     mean = sum(x[i, :]) / n, rstd = 1 / sqrt(sum((x[i, :] - mean)**2) / n + eps)
//     y[i, :] = ((x[i, :] - mean) * rstd) * weight + bias
#include "norm/norm.hpp"
#include "repdl/shape/channels.hpp"
#include "repdl/contract/option.hpp"

namespace repdl::cpu {
namespace {

void layer_norm(const Tensor& input, Ints normalized, const Tensor& weights, const Tensor& biases, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const ExecContext& exec) {
  const float *x = input.as<float>(), *weight = weights.as<float>(), *bias = biases.as<float>();
  float *y = output.as<float>(), *means = mean.as<float>(), *rstds = rstd.as<float>();
  const GroupedChannels s = normalized_rows(input, normalized);
  const std::int64_t n = s.n();
  const bool past = past_caches(y, s.rows(), n);
  const auto each = [](const float* vector) { return Each{vector}; };
  parallel_for(s.rows(), norm_grain(n), exec.threads, [&](std::int64_t begin, std::int64_t end) {
    with_factor(weight, each, [&](auto w) {
      with_factor(bias, each, [&](auto b) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* from = x + row * n;
          const Moments m = row_moments(from, n, eps, contract, prefetch_distance(n, end - 1 - row));
          means[row] = canonical(m.mean);
          rstds[row] = canonical(m.rstd);
          scale_row(from, m, w, b, y + row * n, n, past);
        }
        put_fence();
      });
    });
  });
}

void layer_norm_backward(const Tensor& grads, const Tensor& input, Ints normalized, const Tensor& means,
                         const Tensor& rstds, const Tensor& weights, const Contract& contract, const Tensor& output,
                         const Tensor& to_weights, const Tensor& to_biases, const ExecContext& exec) {
  const float *grad = grads.as<float>(), *x = input.as<float>(), *weight = weights.as<float>();
  const float *mean = means.as<float>(), *rstd = rstds.as<float>();
  float *out = output.as<float>(), *grad_weight = to_weights.as<float>(), *grad_bias = to_biases.as<float>();
  const GroupedChannels s = normalized_rows(input, normalized);
  const std::int64_t n = s.n();
  const bool past = past_caches(out, s.rows(), n);
  ColumnSums columns(s.rows(), 2 * n, contract);
  const float* sums = nullptr;
  const std::int64_t lanes = contract.sum_lanes;
  with_option(weight != nullptr, [&](auto weighted) {
    sums = columns.run(exec.threads, [=](auto rows, std::int64_t row, std::int64_t next, float* lane) {
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
      gradient_rows<R>(given, moments, n, contract, next * n, past, weighted, add);
    });
  });
  for (std::int64_t i = 0; i < n; ++i) {
    grad_weight[i] = canonical(sums[i]);
    grad_bias[i] = canonical(sums[n + i]);
  }
}

const AddKernel layer_norm_kernel = add_kernel<&layer_norm>("layer_norm", DType::float32, Layout::rows);
const AddKernel layer_norm_backward_kernel =
    add_kernel<&layer_norm_backward>("layer_norm_backward", DType::float32, Layout::rows);

}  // namespace
}  // namespace repdl::cpu
