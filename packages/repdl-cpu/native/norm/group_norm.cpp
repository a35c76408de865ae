// The normalisation of groups of channels, and its gradients (group_norm.md).
//
//   for each row (i, k), i < N, k < groups:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[i, k, :, :]) / n, rstd = 1 / sqrt(sum((x[i, k, :, :] - mean)**2) / n + eps)
//     y[i, c, :] = ((x[i, c, :] - mean) * rstd) * weight[c] + bias[c]
#include "norm/norm.hpp"
#include "repdl/shape/channels.hpp"
#include "repdl/contract/option.hpp"

namespace repdl::cpu {
namespace {

struct Groups : GroupedChannels {
  Contract contract;
  int threads;

  // body.run(row) for a share of the rows, those of one group one after the other; start(group) comes
  // before the first of a group.
  template <class Body>
  void rows_of(std::int64_t begin, std::int64_t end, Body& body) const {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t group = task / batch, row = task % batch * groups + group;
      if (task == begin && task % batch != 0) REPDL_ROUTE("group_norm: a share begins within a group");
      if (task == begin || task % batch == 0) body.start(group);
      body.run(row, task + 1 < end && task % batch + 1 < batch ? row + groups : row);
    }
    put_fence();
  }

  // The values of a group's channels, each repeated for its elements.
  void expand(const float* vector, std::int64_t group, std::vector<float>& to) const {
    if (!vector) return;
    to.resize(static_cast<std::size_t>(n()));
    for (std::int64_t c = 0; c < channels; ++c)
      std::fill_n(to.begin() + c * inner, inner, vector[group * channels + c]);
  }
};

void group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weights, const Tensor& biases, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const ExecContext& exec) {
  const float *x = input.as<float>(), *weight = weights.as<float>(), *bias = biases.as<float>();
  float *y = output.as<float>(), *means = mean.as<float>(), *rstds = rstd.as<float>();
  const Groups s{grouped(input, num_groups), contract, exec.threads};
  const std::int64_t n = s.n(), rows = s.rows();
  // A run of elements with one weight and bias each, or with the same for all.
  const bool each = s.inner == 1;
  const std::int64_t run_length = each ? n : s.inner;
  const bool past = past_caches(y, each ? rows : rows * s.channels, run_length);
  parallel_for(rows, norm_grain(n), s.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = x + row * n;
      const Moments m = row_moments(from, n, eps, s.contract, prefetch_distance(n, end - 1 - row));
      means[row] = canonical(m.mean);
      rstds[row] = canonical(m.rstd);
      with_option(each, [&](auto one_each) {
        const std::int64_t first = row % s.groups * s.channels;
        for (std::int64_t at = 0; at < n; at += run_length) {
          const auto factor = [c = first + at / s.inner](const float* vector) {
            if constexpr (decltype(one_each)::value)
              return Each{vector + c};
            else
              return Same{vector[c]};
          };
          with_factor(weight, factor, [&](auto w) {
            with_factor(bias, factor,
                        [&](auto b) { scale_row(from + at, m, w, b, y + row * n + at, run_length, past); });
          });
        }
      });
    }
    put_fence();
  });
}

struct Backward {
  const Groups& s;
  const float *grad, *x, *mean, *rstd, *weight;
  float* out;
  bool past;
  std::vector<float> weights;  // of the group, as long as a row

  void start(std::int64_t group) { s.expand(weight, group, weights); }

  void run(std::int64_t row, std::int64_t next) {
    const std::int64_t n = s.n();
    with_option(weight != nullptr, [&](auto weighted) {
      const GradientRow given{grad + row * n, x + row * n, weights.data(), out + row * n, 0};
      gradient_rows<1>(given, {{{mean[row], rstd[row]}}}, n, s.contract, (next - row) * n, past, weighted,
                       [](std::int64_t, auto, auto, auto) {});
    });
  }
};

// The gradients of weight and bias where inner is 1: columns of (N, C).
void column_gradients(const Groups& s, const Backward& in, float* grad_weight, float* grad_bias) {
  const std::int64_t all = s.groups * s.channels;
  ColumnSums columns(s.batch, 2 * all, s.contract);
  const float* sums = columns.run(s.threads, row_by_row(s.contract, [&](std::int64_t i, std::int64_t, float* lane) {
                                    for (std::int64_t k = 0; k < s.groups; ++k) {
                                      const float mean = in.mean[i * s.groups + k], rstd = in.rstd[i * s.groups + k];
                                      const std::int64_t first = k * s.channels;
                                      const float *g = in.grad + i * all + first, *x = in.x + i * all + first;
                                      row_loop(s.channels, [=](std::int64_t c, auto part) {
                                        float *to_weight = lane + first + c, *to_bias = lane + all + first + c;
                                        const Vec grad = part.load(g + c),
                                                  h = (part.load(x + c) - Vec::set1(mean)) * Vec::set1(rstd);
                                        part.store(to_weight, part.load(to_weight) + grad * h);
                                        part.store(to_bias, part.load(to_bias) + grad);
                                      });
                                    }
                                  }));
  for (std::int64_t c = 0; c < all; ++c) {
    grad_weight[c] = canonical(sums[c]);
    grad_bias[c] = canonical(sums[all + c]);
  }
}

// What is summed for one channel: grad * h and grad, its elements over (N, inner) as one row.
class ChannelElements {
 public:
  ChannelElements(const Groups& s, const Backward& in, std::int64_t channel) : s_(s), in_(in), channel_(channel) {}

  // The elements of one batch element, numbered as in the row, from its first to `end`.
  struct Stretch {
    const float *grad, *x;
    Vec mean, rstd;
    std::int64_t end;

    template <class P>
    std::array<Vec, 2> operator()(std::int64_t i, P part) const {
      prefetch(grad + i, ahead);
      prefetch(x + i, ahead);
      const Vec g = part.load(grad + i);
      return {g * ((part.load(x + i) - mean) * rstd), g};
    }
  };

  // That of element i.
  Stretch stretch(std::int64_t i) const {
    const std::int64_t n = i / s_.inner, row = n * s_.groups + channel_ / s_.channels;
    const std::int64_t offset = (n * s_.groups * s_.channels + channel_ - n) * s_.inner;
    return {in_.grad + offset, in_.x + offset, Vec::set1(in_.mean[row]), Vec::set1(in_.rstd[row]), (n + 1) * s_.inner};
  }

  template <class P>
  std::array<Vec, 2> operator()(std::int64_t i, P part) const {
    const Stretch here = stretch(i);
    if (i + part.n <= here.end) return here(i, part);
    REPDL_ROUTE("group_norm: over batch elements");
    float product[Vec::width] = {}, grad[Vec::width] = {};
    for (int e = 0; e < part.n; ++e) {
      const std::array<Vec, 2> one = stretch(i + e)(i + e, MaskedTail{1});
      one[0].store(product + e, 1);
      one[1].store(grad + e, 1);
    }
    return {Vec::load(product), Vec::load(grad)};
  }

 private:
  static constexpr std::int64_t ahead = 1024;

  const Groups& s_;
  const Backward& in_;
  std::int64_t channel_;
};

void group_norm_backward(const Tensor& grad, const Tensor& input, std::int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& output,
                         const Tensor& to_weight, const Tensor& to_bias, const ExecContext& exec) {
  const Groups s{grouped(input, num_groups), contract, exec.threads};
  float *out = output.as<float>(), *grad_weight = to_weight.as<float>(), *grad_bias = to_bias.as<float>();
  const Backward in{s,
                    grad.as<float>(),
                    input.as<float>(),
                    mean.as<float>(),
                    rstd.as<float>(),
                    weight.as<float>(),
                    out,
                    past_caches(out, s.rows(), s.n()),
                    {}};
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    Backward body = in;
    s.rows_of(begin, end, body);
  };
  const auto channels = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const ChannelElements elements(s, in, c);
      const std::array<float, 2> sums = sums_each<2>(s.batch * s.inner, s.contract, elements);
      grad_weight[c] = canonical(sums[0]);
      grad_bias[c] = canonical(sums[1]);
    }
  };
  if (s.inner > 1 && s.groups % s.threads == 0) {  // a group's channels while its elements are in a cache
    REPDL_ROUTE("group_norm: group by group");
    return parallel_for(s.groups, norm_grain(s.batch * s.n()), s.threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        rows(k * s.batch, (k + 1) * s.batch);
        channels(k * s.channels, (k + 1) * s.channels);
      }
    });
  }
  parallel_for(s.batch * s.groups, norm_grain(s.n()), s.threads, rows);
  if (s.inner == 1) REPDL_ROUTE("group_norm: channels as columns");
  if (s.inner == 1) return column_gradients(s, in, grad_weight, grad_bias);
  parallel_for(s.groups * s.channels, norm_grain(s.batch * s.inner), s.threads, channels);
}

const AddKernel group_norm_kernel = add_kernel<&group_norm>("group_norm", DType::float32, Layout::rows);
const AddKernel group_norm_backward_kernel =
    add_kernel<&group_norm_backward>("group_norm_backward", DType::float32, Layout::rows);

}  // namespace
}  // namespace repdl::cpu
