// layer_norm, rms_norm and group_norm in double, written plainly: the float ones have faster
// kernels of their own (norm.hpp). The order is the same (layer_norm.md and the other two).
//
//   for each row:  (rows, n) -> (rows, n)
//     mean = sum(x) / n (0 for rms_norm), rstd = 1 / sqrt(sum((x - mean)**2) / n + eps)
//     y = ((x - mean) * rstd) * weight[at] + bias[at]
#include <algorithm>

#include "base/threads.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "reduce/sum.hpp"
#include "repdl/contract/norm.hpp"
#include "repdl/shape/channels.hpp"

namespace repdl::cpu {
namespace {

// Rows of n elements, channels of inner each. Element i of row r has the weight of channel
// r % groups * channels + i / inner; without groups that is element i itself.
struct DoubleRows {
  std::int64_t rows, n, groups, channels, inner;
  bool centred;
  Contract contract;
  int threads;

  std::int64_t channel(std::int64_t row, std::int64_t i) const { return row % groups * channels + i / inner; }
  std::int64_t grain() const { return std::max<std::int64_t>(1, (1 << 12) / (n + 1)); }
};

void normalise(const DoubleRows& s, const double* x, const double* weight, const double* bias, double eps, double* y,
               double* means, double* rstds) {
  parallel_for(s.rows, s.grain(), s.threads, [&](std::int64_t begin, std::int64_t end) {
    const double n = static_cast<double>(s.n);
    for (std::int64_t row = begin; row < end; ++row) {
      const double* from = x + row * s.n;
      double* to = y + row * s.n;
      const double mean = s.centred ? sum_row(from, s.n, 1, s.contract) / n : 0.0;
      const double squares =
          sum_of(s.n, s.contract, [=](std::int64_t i) { return (from[i] - mean) * (from[i] - mean); });
      if (s.centred) means[row] = canonical(mean);
      const double rstd = norm_rstd(squares, s.n, eps);
      rstds[row] = canonical(rstd);
      for (std::int64_t i = 0; i < s.n; ++i)
        to[i] = affine(normalised(from[i], mean, rstd), weight, bias, s.channel(row, i));
    }
  });
}

void gradients(const DoubleRows& s, const double* grad, const double* x, const double* mean, const double* rstd,
               const double* weight, double* out) {
  parallel_for(s.rows, s.grain(), s.threads, [&](std::int64_t begin, std::int64_t end) {
    const double n = static_cast<double>(s.n);
    for (std::int64_t row = begin; row < end; ++row) {
      const double *g = grad + row * s.n, *from = x + row * s.n;
      const double m = s.centred ? mean[row] : 0.0, r = rstd[row];
      const auto h = [=](std::int64_t i) { return normalised(from[i], m, r); };
      const auto w = [=, &s](std::int64_t i) { return weight ? g[i] * weight[s.channel(row, i)] : g[i]; };
      const double b = s.centred ? sum_of(s.n, s.contract, w) / n : 0.0;
      const double t = sum_of(s.n, s.contract, [&](std::int64_t i) { return w(i) * h(i); }) / n;
      for (std::int64_t i = 0; i < s.n; ++i) out[row * s.n + i] = norm_gradient(w(i), h(i), b, t, r);
    }
  });
}

constexpr std::int64_t column_tile = tuned(256, 8);

// grad_weight[c] = sum of f(i, c) and grad_bias[c] = sum of g(i, c) over i < count.
template <class F, class G>
void column_gradients(const DoubleRows& s, std::int64_t count, std::int64_t columns, double* grad_weight,
                      double* grad_bias, const F& f, const G& g) {
  const std::int64_t tiles = (columns + column_tile - 1) / column_tile;
  parallel_for(tiles, 1, s.threads, [&](std::int64_t begin, std::int64_t end) {
    double staged[sum_rows_at_once][column_tile];
    std::int64_t calls = 0;
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t first = tile * column_tile, width = std::min(column_tile, columns - first);
      if (first > 0) REPDL_ROUTE("norm, double: second tile of columns");
      const auto sums = [&](const auto& element, double* to) {
        const auto row = [&](std::int64_t i) {
          double* const values = staged[calls++ % sum_rows_at_once];
          for (std::int64_t c = 0; c < width; ++c) values[c] = element(i, first + c);
          return static_cast<const double*>(values);
        };
        sum_columns(count, width, false, row, to + first, s.contract);
        for (std::int64_t c = 0; c < width; ++c) to[first + c] = canonical(to[first + c]);
      };
      sums(f, grad_weight);
      if (grad_bias) sums(g, grad_bias);
    }
  });
}

// Each column an element of normalized_shape, summed over the rows.
void row_gradients(const DoubleRows& s, const double* grad, const double* x, const double* mean, const double* rstd,
                   double* grad_weight, double* grad_bias) {
  column_gradients(
      s, s.rows, s.n, grad_weight, grad_bias,
      [=, &s](std::int64_t row, std::int64_t c) {
        return grad[row * s.n + c] * normalised(x[row * s.n + c], s.centred ? mean[row] : 0.0, rstd[row]);
      },
      [=, &s](std::int64_t row, std::int64_t c) { return grad[row * s.n + c]; });
}

// Each column a channel, summed over (N, inner).
void channel_gradients(const DoubleRows& s, const double* grad, const double* x, const double* mean, const double* rstd,
                       double* grad_weight, double* grad_bias) {
  const std::int64_t all = s.groups * s.channels, batch = s.rows / s.groups;
  const auto at = [=, &s](std::int64_t i, std::int64_t c) { return (i / s.inner * all + c) * s.inner + i % s.inner; };
  column_gradients(
      s, batch * s.inner, all, grad_weight, grad_bias,
      [=, &s](std::int64_t i, std::int64_t c) {
        const std::int64_t row = i / s.inner * s.groups + c / s.channels, k = at(i, c);
        return grad[k] * normalised(x[k], mean[row], rstd[row]);
      },
      [=](std::int64_t i, std::int64_t c) { return grad[at(i, c)]; });
}

DoubleRows double_rows(const GroupedChannels& s, bool centred, const Contract& contract, const ExecContext& exec) {
  return {s.rows(), s.n(), s.groups, s.channels, s.inner, centred, contract, exec.threads};
}

void layer_norm_double(const Tensor& input, Ints normalized, const Tensor& weight, const Tensor& bias, double eps,
                       const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                       const ExecContext& exec) {
  normalise(double_rows(normalized_rows(input, normalized), true, contract, exec), input.as<double>(),
            weight.as<double>(), bias.as<double>(), eps, output.as<double>(), mean.as<double>(), rstd.as<double>());
}

void rms_norm_double(const Tensor& input, Ints normalized, const Tensor& weight, double eps, const Contract& contract,
                     const Tensor& output, const Tensor& rstd, const ExecContext& exec) {
  normalise(double_rows(normalized_rows(input, normalized), false, contract, exec), input.as<double>(),
            weight.as<double>(), nullptr, eps, output.as<double>(), nullptr, rstd.as<double>());
}

void group_norm_double(const Tensor& input, std::int64_t num_groups, const Tensor& weight, const Tensor& bias,
                       double eps, const Contract& contract, const Tensor& output, const Tensor& mean,
                       const Tensor& rstd, const ExecContext& exec) {
  normalise(double_rows(grouped(input, num_groups), true, contract, exec), input.as<double>(), weight.as<double>(),
            bias.as<double>(), eps, output.as<double>(), mean.as<double>(), rstd.as<double>());
}

void layer_norm_backward_double(const Tensor& grads, const Tensor& input, Ints normalized, const Tensor& mean,
                                const Tensor& rstd, const Tensor& weight, const Contract& contract,
                                const Tensor& output, const Tensor& grad_weight, const Tensor& grad_bias,
                                const ExecContext& exec) {
  const DoubleRows s = double_rows(normalized_rows(input, normalized), true, contract, exec);
  const double *g = grads.as<double>(), *x = input.as<double>(), *m = mean.as<double>(), *r = rstd.as<double>();
  gradients(s, g, x, m, r, weight.as<double>(), output.as<double>());
  row_gradients(s, g, x, m, r, grad_weight.as<double>(), grad_bias.as<double>());
}

void rms_norm_backward_double(const Tensor& grads, const Tensor& input, Ints normalized, const Tensor& rstd,
                              const Tensor& weight, const Contract& contract, const Tensor& output,
                              const Tensor& grad_weight, const ExecContext& exec) {
  const DoubleRows s = double_rows(normalized_rows(input, normalized), false, contract, exec);
  const double *g = grads.as<double>(), *x = input.as<double>(), *r = rstd.as<double>();
  gradients(s, g, x, nullptr, r, weight.as<double>(), output.as<double>());
  row_gradients(s, g, x, nullptr, r, grad_weight.as<double>(), nullptr);
}

void group_norm_backward_double(const Tensor& grads, const Tensor& input, std::int64_t num_groups, const Tensor& mean,
                                const Tensor& rstd, const Tensor& weight, const Contract& contract,
                                const Tensor& output, const Tensor& grad_weight, const Tensor& grad_bias,
                                const ExecContext& exec) {
  const DoubleRows s = double_rows(grouped(input, num_groups), true, contract, exec);
  const double *g = grads.as<double>(), *x = input.as<double>(), *m = mean.as<double>(), *r = rstd.as<double>();
  gradients(s, g, x, m, r, weight.as<double>(), output.as<double>());
  channel_gradients(s, g, x, m, r, grad_weight.as<double>(), grad_bias.as<double>());
}

[[maybe_unused]] const AddKernel norm_double_kernels[] = {
    add_kernel<&layer_norm_double>("layer_norm", DType::float64, Layout::rows),
    add_kernel<&layer_norm_backward_double>("layer_norm_backward", DType::float64, Layout::rows),
    add_kernel<&rms_norm_double>("rms_norm", DType::float64, Layout::rows),
    add_kernel<&rms_norm_backward_double>("rms_norm_backward", DType::float64, Layout::rows),
    add_kernel<&group_norm_double>("group_norm", DType::float64, Layout::rows),
    add_kernel<&group_norm_backward_double>("group_norm_backward", DType::float64, Layout::rows),
};

}  // namespace
}  // namespace repdl::cpu
