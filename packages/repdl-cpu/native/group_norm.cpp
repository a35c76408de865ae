// The normalisation of groups of channels, and its gradients (group_norm.md).
//
//   for each row (i, k), i < N, k < groups:  (N, C, inner) -> (N, C, inner)
//     mean = sum(x[i, k, :, :]) / n, rstd = 1 / sqrt(sum((x[i, k, :, :] - mean)**2) / n + eps)
//     y[i, c, :] = ((x[i, c, :] - mean) * rstd) * weight[c] + bias[c]
#include <cmath>

#include "bind.hpp"
#include "norm.hpp"

namespace repdl::cpu {
namespace {

struct Groups {
  std::int64_t batch, groups, channels, inner;  // channels of one group
  Contract contract;
  int threads;

  std::int64_t n() const { return channels * inner; }

  // body(channel of the tensor, first element of it in the row) for each channel of a row.
  template <class Body>
  void each_channel(std::int64_t row, const Body& body) const {
    for (std::int64_t c = 0; c < channels; ++c) body(row % groups * channels + c, c * inner);
  }

  // The sum over a row of f(i, weight of its channel, V{}), elements in any number of vectors.
  template <class F>
  float sum_weighted(std::int64_t row, const float* weight, const F& f) const {
    if (!weight) return sum_each(n(), contract, [&f](std::int64_t i, auto type) { return f(i, 1.0f, type); });
    const float* of_group = weight + row % groups * channels;
    return sum_filled(n(), contract, [&](std::int64_t start, std::int64_t length, float* dst) {
      while (length > 0) {
        const std::int64_t c = start / inner, run = std::min(length, (c + 1) * inner - start);
        const float w = of_group[c];
        sweep(run, [&](std::int64_t i, auto type) { f(start + i, w, type).store(dst + i); });
        start += run;
        dst += run;
        length -= run;
      }
    });
  }
};

void group_norm(const Groups& s, const float* x, const float* weight, const float* bias, double eps, float* y,
                float* means, float* rstds) {
  const std::int64_t n = s.n();
  parallel_for(s.batch * s.groups, norm_grain(n), s.threads, [&](std::int64_t begin, std::int64_t end) {
    // Converted in here: only the parts of a parallel_for round to nearest whatever the caller has set.
    const float count = static_cast<float>(n), epsilon = static_cast<float>(eps);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = x + row * n;
      float* to = y + row * n;
      const float mean = sum_row(from, n, 1, s.contract) / count;
      const float var = sum_each(n, s.contract, [=](std::int64_t i, auto type) {
                          using V = decltype(type);
                          const V d = V::load(from + i) - V::set1(mean);
                          return d * d;
                        }) / count;
      const float rstd = 1.0f / std::sqrt(var + epsilon);
      means[row] = canonical(mean);
      rstds[row] = canonical(rstd);
      const auto each = [=](std::int64_t start, std::int64_t length, auto scaled) {
        sweep(length, [=](std::int64_t i, auto type) {
          using V = decltype(type);
          canonical(scaled((V::load(from + start + i) - V::set1(mean)) * V::set1(rstd))).store(to + start + i);
        });
      };
      if (!weight && !bias) {
        each(0, n, [](auto h) { return h; });
        continue;
      }
      s.each_channel(row, [&](std::int64_t c, std::int64_t start) {
        const float w = weight ? weight[c] : 1.0f, b = bias ? bias[c] : 0.0f;
        if (weight && bias)
          each(start, s.inner, [=](auto h) { return fma(h, decltype(h)::set1(w), decltype(h)::set1(b)); });
        else if (weight)
          each(start, s.inner, [=](auto h) { return h * decltype(h)::set1(w); });
        else
          each(start, s.inner, [=](auto h) { return h + decltype(h)::set1(b); });
      });
    }
  });
}

void group_norm_backward(const Groups& s, const float* grad, const float* x, const float* means, const float* rstds,
                         const float* weight, float* out, float* grad_weight, float* grad_bias) {
  const std::int64_t n = s.n(), inner = s.inner, all = s.groups * s.channels;
  parallel_for(s.batch * s.groups, norm_grain(n), s.threads, [&](std::int64_t begin, std::int64_t end) {
    const float count = static_cast<float>(n);
    for (std::int64_t row = begin; row < end; ++row) {
      const float *g = grad + row * n, *from = x + row * n, mean = means[row], rstd = rstds[row];
      float* to = out + row * n;
      const auto h = [=](std::int64_t i, auto type) {
        using V = decltype(type);
        return (V::load(from + i) - V::set1(mean)) * V::set1(rstd);
      };
      const auto weighted = [=](std::int64_t i, float w, auto type) {
        return decltype(type)::load(g + i) * decltype(type)::set1(w);
      };
      const float a = s.sum_weighted(row, weight, weighted) / count;
      const float b = -(s.sum_weighted(row, weight, [=](std::int64_t i, float w, auto type) {
                          return weighted(i, w, type) * h(i, type);
                        }) / count);
      const auto each = [=](std::int64_t start, std::int64_t length, float w) {
        sweep(length, [=](std::int64_t j, auto type) {
          using V = decltype(type);
          const std::int64_t i = start + j;
          // h * -b and -h * b are the same number.
          canonical(V::set1(rstd) * fma(h(i, type), V::set1(b), weighted(i, w, type) - V::set1(a))).store(to + i);
        });
      };
      if (weight)
        s.each_channel(row, [&](std::int64_t c, std::int64_t start) { each(start, inner, weight[c]); });
      else
        each(0, n, 1.0f);  // a product with 1 is exact
    }
  });
  // For each channel on its own, over (N, inner).
  parallel_for(all, norm_grain(s.batch * inner), s.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const auto sum = [&](const auto& f) {
        return sum_filled(s.batch * inner, s.contract, [&](std::int64_t start, std::int64_t length, float* dst) {
          while (length > 0) {
            const std::int64_t i = start / inner, j = start % inner, run = std::min(length, inner - j);
            const std::int64_t row = i * s.groups + c / s.channels;
            f((i * all + c) * inner + j, run, means[row], rstds[row], dst);
            start += run;
            dst += run;
            length -= run;
          }
        });
      };
      grad_bias[c] = canonical(sum([grad](std::int64_t at, std::int64_t run, float, float, float* dst) {
        std::copy(grad + at, grad + at + run, dst);
      }));
      grad_weight[c] =
          canonical(sum([grad, x](std::int64_t at, std::int64_t run, float mean, float rstd, float* dst) {
            sweep(run, [=](std::int64_t i, auto type) {
              using V = decltype(type);
              const V h = (V::load(x + at + i) - V::set1(mean)) * V::set1(rstd);
              (V::load(grad + at + i) * h).store(dst + i);
            });
          }));
    }
  });
}

Groups groups_of(const Sizes& sizes, std::int64_t lanes, std::int64_t block, int threads) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], sum_order(lanes, block), threads};
}

}  // namespace

void bind_group_norm(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "group_norm",
      [](Address x, Address weight, Address bias, Address y, Address mean, Address rstd, const Sizes& sizes,
         double eps, std::int64_t lanes, std::int64_t block, int threads) {
        group_norm(groups_of(sizes, lanes, block, threads), in(x), in(weight), in(bias), eps, out(y), out(mean),
                   out(rstd));
      },
      release);
  module.def(
      "group_norm_backward",
      [](Address grad, Address x, Address mean, Address rstd, Address weight, Address result, Address grad_weight,
         Address grad_bias, const Sizes& sizes, std::int64_t lanes, std::int64_t block, int threads) {
        group_norm_backward(groups_of(sizes, lanes, block, threads), in(grad), in(x), in(mean), in(rstd), in(weight),
                            out(result), out(grad_weight), out(grad_bias));
      },
      release);
}

}  // namespace repdl::cpu
