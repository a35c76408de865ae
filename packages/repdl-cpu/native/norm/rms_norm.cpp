// The division of each row by its root mean square, and its gradients (rms_norm.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     rstd = 1 / sqrt(sum(x[i, :]**2) / n + eps)
//     y[i, :] = (x[i, :] * rstd) * weight
#include <cmath>

#include "norm/norm.hpp"
#include "repdl/shape/channels.hpp"
#include "repdl/contract/option.hpp"

namespace repdl::cpu {
namespace {

void rms_norm(const Tensor& input, Ints normalized, const Tensor& weights, double eps, const Contract& contract,
              const Tensor& output, const Tensor& rstds_made, const ExecContext& exec) {
  const float *x = input.as<float>(), *weight = weights.as<float>();
  float *y = output.as<float>(), *rstds = rstds_made.as<float>();
  const GroupedChannels s = normalized_rows(input, normalized);
  const std::int64_t n = s.n();
  parallel_for(s.rows(), norm_grain(n), exec.threads, [&](std::int64_t begin, std::int64_t end) {
    // Converted in here: only what a parallel_for calls rounds to nearest whatever the caller has set.
    const float count = static_cast<float>(n), epsilon = static_cast<float>(eps);
    with_option(weight != nullptr, [&](auto weighted) {
      for (std::int64_t row = begin; row < end; ++row) {
        const float* from = x + row * n;
        const std::int64_t ahead = prefetch_distance(n, end - 1 - row);
        float* to = y + row * n;
        const float q = sum_each(n, contract,
                                 [=](std::int64_t i, auto part) {
                                   prefetch(from + i, ahead);
                                   const Vec v = part.load(from + i);
                                   return v * v;
                                 }) /
                        count;
        const float rstd = 1.0f / std::sqrt(q + epsilon);
        rstds[row] = canonical(rstd);
        row_loop(n, [=](std::int64_t i, auto part) {
          const Vec h = part.load(from + i) * Vec::set1(rstd);
          if constexpr (decltype(weighted)::value)
            part.store(to + i, canonical(h * part.load(weight + i)));
          else
            part.store(to + i, canonical(h));
        });
      }
    });
  });
}

// One row: grad_input to out, grad * h added to sums[0 .. n). Prefetches `ahead` elements further.
template <class Weighted>
void row_backward(std::int64_t n, const Contract& contract, const float* g, const float* x, float rstd,
                  const float* weight, float* out, float* sums, std::int64_t ahead, Weighted) {
  const auto w = [=](std::int64_t i, auto part) {
    if constexpr (Weighted::value)
      return part.load(g + i) * part.load(weight + i);
    else
      return part.load(g + i);
  };
  const auto h = [=](std::int64_t i, auto part) { return part.load(x + i) * Vec::set1(rstd); };
  const float t = sum_each(n, contract, [=](std::int64_t i, auto part) { return w(i, part) * h(i, part); });
  const float b = -(t / static_cast<float>(n));
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(g + i, ahead);
    prefetch(x + i, ahead);
    const Vec scaled = h(i, part);
    // h * -b and -h * b are the same number.
    part.store(out + i, canonical(Vec::set1(rstd) * fma(scaled, Vec::set1(b), w(i, part))));
    part.store(sums + i, part.load(sums + i) + part.load(g + i) * scaled);
  });
}

void rms_norm_backward(const Tensor& grads, const Tensor& input, Ints normalized, const Tensor& rstds,
                       const Tensor& weights, const Contract& contract, const Tensor& output, const Tensor& to_weights,
                       const ExecContext& exec) {
  const float *grad = grads.as<float>(), *x = input.as<float>(), *rstd = rstds.as<float>();
  const float* weight = weights.as<float>();
  float *out = output.as<float>(), *grad_weight = to_weights.as<float>();
  const GroupedChannels s = normalized_rows(input, normalized);
  const std::int64_t n = s.n();
  ColumnSums columns(s.rows(), n, contract);
  const float* sums = nullptr;
  with_option(weight != nullptr, [&](auto weighted) {
    sums = columns.run(exec.threads, row_by_row(contract, [&](std::int64_t row, std::int64_t next, float* lane) {
                         row_backward(n, contract, grad + row * n, x + row * n, rstd[row], weight, out + row * n, lane,
                                      next * n, weighted);
                       }));
  });
  for (std::int64_t i = 0; i < n; ++i) grad_weight[i] = canonical(sums[i]);
}

const AddKernel rms_norm_kernel = add_kernel<&rms_norm>("rms_norm", DType::float32, Layout::rows);
const AddKernel rms_norm_backward_kernel =
    add_kernel<&rms_norm_backward>("rms_norm_backward", DType::float32, Layout::rows);

}  // namespace
}  // namespace repdl::cpu
