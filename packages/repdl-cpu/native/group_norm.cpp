// The normalisation of groups of channels, and its gradients (group_norm.md).
//
//   for each row (i, k), i < N, k < groups:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[i, k, :, :]) / n, rstd = 1 / sqrt(sum((x[i, k, :, :] - mean)**2) / n + eps)
//     y[i, c, :] = ((x[i, c, :] - mean) * rstd) * weight[c] + bias[c]
#include "bind.hpp"
#include "elements.hpp"
#include "norm.hpp"

namespace repdl::cpu {
namespace {

struct Groups {
  std::int64_t batch, groups, channels, inner;  // channels of one group
  Contract contract;
  int threads;

  std::int64_t n() const { return channels * inner; }

  // body(row) for every row, those of one group one after the other; begin(group) comes
  // before the first of a group. Each thread works with a Body of its own.
  template <class Make>
  void each_row(const Make& make) const {
    parallel_for(batch * groups, norm_grain(n()), threads, [&](std::int64_t begin, std::int64_t end) {
      auto body = make();
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t group = task / batch, row = task % batch * groups + group;
        if (task == begin || task % batch == 0) body.start(group);
        body.run(row, task + 1 < end && task % batch + 1 < batch ? row + groups : row);
      }
    });
  }

  // The values of a group's channels, each repeated for its elements.
  void expand(const float* vector, std::int64_t group, std::vector<float>& to) const {
    if (!vector) return;
    to.resize(static_cast<std::size_t>(n()));
    for (std::int64_t c = 0; c < channels; ++c)
      std::fill_n(to.begin() + c * inner, inner, vector[group * channels + c]);
  }
};

struct Forward {
  const Groups& s;
  const float *x, *weight, *bias;
  double eps;
  float *y, *mean, *rstd;
  std::vector<float> weights, biases;  // of the group, as long as a row

  void start(std::int64_t group) {
    s.expand(weight, group, weights);
    s.expand(bias, group, biases);
  }

  void run(std::int64_t row, std::int64_t next) {
    const std::int64_t n = s.n();
    const Moments m = RowMoments(x + row * n, n, eps, s.contract)(x + row * n, x + next * n);
    mean[row] = canonical(m.mean);
    rstd[row] = canonical(m.rstd);
    with_option(weight != nullptr, [&](auto weighted) {
      with_option(bias != nullptr, [&](auto biased) {
        scale_row(x + row * n, m, weights.data(), biases.data(), y + row * n, n, false, weighted, biased);
      });
    });
  }
};

struct Backward {
  const Groups& s;
  const float *grad, *x, *mean, *rstd, *weight;
  float* out;
  std::vector<float> weights;  // of the group, as long as a row

  void start(std::int64_t group) { s.expand(weight, group, weights); }

  void run(std::int64_t row, std::int64_t next) {
    const std::int64_t n = s.n();
    with_option(weight != nullptr, [&](auto weighted) {
      gradient_row(grad + row * n, x + row * n, {mean[row], rstd[row]}, weights.data(), out + row * n, n, s.contract,
                   grad + next * n, x + next * n, false, weighted, [](std::int64_t, auto, auto) {});
    });
  }
};

// The gradients of weight and bias where inner is 1: columns of (N, C).
void column_gradients(const Groups& s, const Backward& in, float* grad_weight, float* grad_bias) {
  const std::int64_t all = s.groups * s.channels;
  ColumnSums columns(s.batch, 2 * all, s.contract);
  const float* sums = columns.run(s.threads, [&](std::int64_t i, std::int64_t, float* lane) {
    for (std::int64_t k = 0; k < s.groups; ++k) {
      const float mean = in.mean[i * s.groups + k], rstd = in.rstd[i * s.groups + k];
      const std::int64_t first = k * s.channels;
      const float *g = in.grad + i * all + first, *x = in.x + i * all + first;
      sweep(s.channels, [=](std::int64_t c, auto type) {
        using V = decltype(type);
        float *to_weight = lane + first + c, *to_bias = lane + all + first + c;
        const V grad = V::load(g + c), h = (V::load(x + c) - V::set1(mean)) * V::set1(rstd);
        (V::load(to_weight) + grad * h).store(to_weight);
        (V::load(to_bias) + grad).store(to_bias);
      });
    }
  });
  for (std::int64_t c = 0; c < all; ++c) {
    grad_weight[c] = canonical(sums[c]);
    grad_bias[c] = canonical(sums[all + c]);
  }
}

// Both sums of channel c over (N, inner), staged piece by piece.
std::array<float, 2> channel_sums(const Groups& s, const Backward& in, std::int64_t c) {
  const std::int64_t n = s.batch * s.inner, block = sum_block_of(s.contract, n), all = s.groups * s.channels;
  alignas(64) float staged[2][sum_piece];
  Tree<float> weight, bias;
  for (std::int64_t first = 0; first < n; first += block) {
    BlockSum weights(s.contract), biases(s.contract);
    const std::int64_t last = std::min(n, first + block);
    for (std::int64_t piece = first; piece < last; piece += sum_piece) {
      const std::int64_t count = std::min(sum_piece, last - piece);
      for (std::int64_t done = 0; done < count;) {
        const std::int64_t i = (piece + done) / s.inner, j = (piece + done) % s.inner;
        const std::int64_t run = std::min(count - done, s.inner - j), row = i * s.groups + c / s.channels;
        const std::int64_t at = (i * all + c) * s.inner + j;
        const float *g = in.grad + at, *x = in.x + at, mean = in.mean[row], rstd = in.rstd[row];
        float *to_weight = staged[0] + done, *to_bias = staged[1] + done;
        sweep(run, [=](std::int64_t e, auto type) {
          using V = decltype(type);
          const V grad = V::load(g + e);
          (grad * ((V::load(x + e) - V::set1(mean)) * V::set1(rstd))).store(to_weight + e);
          grad.store(to_bias + e);
        });
        done += run;
      }
      weights.add(staged[0], count);
      biases.add(staged[1], count);
    }
    weight.push(weights.result());
    bias.push(biases.result());
  }
  return {weight.result(), bias.result()};
}

void group_norm_backward(const Groups& s, const Backward& in, float* grad_weight, float* grad_bias) {
  s.each_row([&] { return in; });
  if (s.inner == 1) return column_gradients(s, in, grad_weight, grad_bias);
  parallel_for(s.groups * s.channels, norm_grain(s.batch * s.inner), s.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t c = begin; c < end; ++c) {
                   const std::array<float, 2> sums = channel_sums(s, in, c);
                   grad_weight[c] = canonical(sums[0]);
                   grad_bias[c] = canonical(sums[1]);
                 }
               });
}

Groups groups_of(const Sizes& sizes, std::int64_t lanes, std::int64_t block, int threads) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], sum_order(lanes, block), threads};
}

}  // namespace

template <>
void bind_group_norm<float>(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "group_norm",
      [](Address x, Address weight, Address bias, Address y, Address mean, Address rstd, const Sizes& sizes,
         double eps, std::int64_t lanes, std::int64_t block, int threads) {
        const Groups s = groups_of(sizes, lanes, block, threads);
        s.each_row([&] { return Forward{s, in(x), in(weight), in(bias), eps, out(y), out(mean), out(rstd), {}, {}}; });
      },
      release);
  module.def(
      "group_norm_backward",
      [](Address grad, Address x, Address mean, Address rstd, Address weight, Address result, Address grad_weight,
         Address grad_bias, const Sizes& sizes, std::int64_t lanes, std::int64_t block, int threads) {
        const Groups s = groups_of(sizes, lanes, block, threads);
        const Backward given{s, in(grad), in(x), in(mean), in(rstd), in(weight), out(result), {}};
        group_norm_backward(s, given, out(grad_weight), out(grad_bias));
      },
      release);
}

}  // namespace repdl::cpu
