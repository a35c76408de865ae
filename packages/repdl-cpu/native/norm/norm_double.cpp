// layer_norm, rms_norm and group_norm in double, written plainly: the float ones have faster
// kernels of their own (norm.hpp). The order is the same (layer_norm.md and the other two).
//
//   for each row:  (rows, n) -> (rows, n)
//     mean = sum(x) / n (0 for rms_norm), rstd = 1 / sqrt(sum((x - mean)**2) / n + eps)
//     y = ((x - mean) * rstd) * weight[at] + bias[at]
#include <algorithm>

#include "base/bind.hpp"
#include "repdl/contract/norm.hpp"
#include "reduce/sum.hpp"
#include "base/threads.hpp"

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

constexpr std::int64_t column_tile = 256;

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

DoubleRows double_rows(std::int64_t rows, std::int64_t n, bool centred, std::int64_t lanes, std::int64_t block,
                       int threads) {
  return {rows, n, 1, n, 1, centred, sum_order(lanes, block), threads};
}

// (N, groups, channels of one, inner)
DoubleRows double_groups(const Sizes& z, std::int64_t lanes, std::int64_t block, int threads) {
  return {z[0] * z[1], z[2] * z[3], z[1], z[2], z[3], true, sum_order(lanes, block), threads};
}

}  // namespace

template <>
void bind_layer_norm<double>(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "layer_norm",
      [](Address x, Address weight, Address bias, Address y, Address mean, Address rstd, std::int64_t rows,
         std::int64_t n, double eps, std::int64_t lanes, std::int64_t block, int threads) {
        normalise(double_rows(rows, n, true, lanes, block, threads), in<double>(x), in<double>(weight),
                  in<double>(bias), eps, out<double>(y), out<double>(mean), out<double>(rstd));
      },
      release);
  module.def(
      "layer_norm_backward",
      [](Address grad, Address x, Address mean, Address rstd, Address weight, Address result, Address grad_weight,
         Address grad_bias, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block, int threads) {
        const DoubleRows s = double_rows(rows, n, true, lanes, block, threads);
        const double *g = in<double>(grad), *from = in<double>(x), *m = in<double>(mean), *r = in<double>(rstd);
        gradients(s, g, from, m, r, in<double>(weight), out<double>(result));
        row_gradients(s, g, from, m, r, out<double>(grad_weight), out<double>(grad_bias));
      },
      release);
}

template <>
void bind_rms_norm<double>(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "rms_norm",
      [](Address x, Address weight, Address y, Address rstd, std::int64_t rows, std::int64_t n, double eps,
         std::int64_t lanes, std::int64_t block, int threads) {
        normalise(double_rows(rows, n, false, lanes, block, threads), in<double>(x), in<double>(weight), nullptr, eps,
                  out<double>(y), nullptr, out<double>(rstd));
      },
      release);
  module.def(
      "rms_norm_backward",
      [](Address grad, Address x, Address rstd, Address weight, Address result, Address grad_weight, std::int64_t rows,
         std::int64_t n, std::int64_t lanes, std::int64_t block, int threads) {
        const DoubleRows s = double_rows(rows, n, false, lanes, block, threads);
        const double *g = in<double>(grad), *from = in<double>(x), *r = in<double>(rstd);
        gradients(s, g, from, nullptr, r, in<double>(weight), out<double>(result));
        row_gradients(s, g, from, nullptr, r, out<double>(grad_weight), nullptr);
      },
      release);
}

template <>
void bind_group_norm<double>(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "group_norm",
      [](Address x, Address weight, Address bias, Address y, Address mean, Address rstd, const Sizes& sizes, double eps,
         std::int64_t lanes, std::int64_t block, int threads) {
        normalise(double_groups(sizes, lanes, block, threads), in<double>(x), in<double>(weight), in<double>(bias), eps,
                  out<double>(y), out<double>(mean), out<double>(rstd));
      },
      release);
  module.def(
      "group_norm_backward",
      [](Address grad, Address x, Address mean, Address rstd, Address weight, Address result, Address grad_weight,
         Address grad_bias, const Sizes& sizes, std::int64_t lanes, std::int64_t block, int threads) {
        const DoubleRows s = double_groups(sizes, lanes, block, threads);
        const double *g = in<double>(grad), *from = in<double>(x), *m = in<double>(mean), *r = in<double>(rstd);
        gradients(s, g, from, m, r, in<double>(weight), out<double>(result));
        channel_gradients(s, g, from, m, r, out<double>(grad_weight), out<double>(grad_bias));
      },
      release);
}

}  // namespace repdl::cpu
