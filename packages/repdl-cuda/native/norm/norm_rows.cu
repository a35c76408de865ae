// The norms over rows, and their gradients (layer_norm.md, group_norm.md, rms_norm.md).
//
//   for each row x of (batch, groups):  (batch, groups, channels, inner), n = channels * inner
//     mean = sum(x) / n (+0 for rms_norm), rstd = 1 / sqrt(sum((x - mean)**2) / n + eps)
//     y = ((x - mean) * rstd) * weight[channel] + bias[channel]
//
// The rows of layer_norm and rms_norm are (rows, 1, n, 1). A row of floats of up to 32 blocks of v1, 16 for the
// gradients, is kept in registers (register_rows.hpp); of others a CUDA block takes a row. The gradients of weight and
// bias are sums by the whole grid.
#include "base/divide.hpp"
#include "base/rounded_on_host.hpp"
#include "reduce/channel_sums.hpp"
#include "reduce/register_rows.hpp"
#include "reduce/row_reduce.hpp"

namespace repdl::cuda {
inline namespace norm_rows_cu {

constexpr int most_threads = 256;

struct NormRows {
  std::int64_t groups, channels, inner;
  FastDivmod64 by_inner;

  explicit NormRows(const GroupedChannels& s)
      : groups(s.groups), channels(s.channels), inner(s.inner), by_inner(inner) {}

  __device__ std::int64_t n() const { return channels * inner; }
  __device__ std::int64_t row() const { return blockIdx.x; }
  // The channels of this CUDA block's row begin here; that of element i is by_inner.quotient(i) on.
  __device__ std::int64_t first_channel() const { return row() % groups * channels; }
};

// The elements of weight or bias for a pack of elements of a row, or null; packs need channels that are packs too.
template <int count, class T>
struct OfChannels {
  Pack<T, count> pack;
  bool given;

  OfChannels() = default;
  __device__ OfChannels(const NormRows& s, const T* values, std::int64_t i) : pack{}, given(values) {
    if (!values) return;
    if (s.inner == 1) {
      pack = load_pack<count>(values + s.first_channel() + i);
    } else {
      const T value = values[s.first_channel() + s.by_inner.quotient(i)];
#pragma unroll
      for (int q = 0; q < count; ++q) pack.of[q] = value;
    }
  }
  __device__ const T* values() const { return given ? pack.of : nullptr; }
};

// Whether packs of a row have elements of one channel, or packs of weight and bias.
template <class T>
__device__ bool whole_channels(const NormRows& s, const T* weight, const T* bias) {
  return s.inner == 1 ? packed(weight) && packed(bias) : s.inner % whole_pack<T> == 0;
}

// What the results of a pack of elements are made of.
template <class T, int count>
struct Normed {
  Pack<T, count> x;
  OfChannels<count, T> weight, bias;
};

// `means` is null for rms_norm.
template <bool caches, class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_of_rows(NormRows s, const T* inputs, const T* weight, const T* bias, T* outputs, T* means, T* rstds, T eps,
                 SumOrder order) {
  const std::int64_t n = s.n();
  const T* x = inputs + s.row() * n;
  if constexpr (caches) {
    cache_row(x, dynamic_shared<T>(), n);
    x = dynamic_shared<T>();
    __syncthreads();
  }
  T mean = T(0);
  if (means) mean = row_sum<T>(n, order, [=](std::int64_t i) { return x[i]; }) / static_cast<T>(n);
  const T squares = row_sum<T>(n, order, [=](std::int64_t i) { return mul(x[i] - mean, x[i] - mean); });
  const T rstd = norm_rstd(squares, n, eps);
  if (threadIdx.x == 0) {
    if (means) means[s.row()] = canonical(mean);
    rstds[s.row()] = canonical(rstd);
  }
  T* y = outputs + s.row() * n;
  write_row(
      y, n, whole_packs(n, x, y) && whole_channels(s, weight, bias),
      [=](std::int64_t i, auto width) {
        return Normed<T, width()>{load_pack<width()>(x + i), {s, weight, i}, {s, bias, i}};
      },
      [=](int q, const auto& of) {
        return affine(normalised(of.x.of[q], mean, rstd), of.weight.values(), of.bias.values(), q);
      });
}

// Of each element w, the gradient of its h, and h: cached, or made again of grad, x and weight.
template <bool caches, class T>
__global__ void __launch_bounds__(most_threads, 2)
    norm_row_gradients(NormRows s, const T* grads, const T* inputs, const T* means, const T* rstds, const T* weight,
                       T* results, SumOrder order) {
  const std::int64_t n = s.n();
  const T *grad = grads + s.row() * n, *x = inputs + s.row() * n;
  T* y = results + s.row() * n;
  const T mean = means ? means[s.row()] : T(0), rstd = rstds[s.row()];
  const auto load = [=](std::int64_t i, auto width) { return two_packs<width()>(grad + i, x + i); };
  const auto made = [=](std::int64_t i, auto of) {
    constexpr int count = sizeof of.first / sizeof(T);
    const OfChannels<count, T> w(s, weight, i);
#pragma unroll
    for (int q = 0; q < count; ++q) {
      if (w.given) of.first.of[q] = mul(of.first.of[q], w.pack.of[q]);
      of.second.of[q] = normalised(of.second.of[q], mean, rstd);
    }
    return of;
  };
  const bool whole = whole_packs(n, grad, x, y) && whole_channels<T>(s, weight, nullptr);
  const auto finish = [=](const auto& h_of) {
    const TwoSums<T> sums = row_sum<TwoSums<T>>(n, order, [=](std::int64_t i) {
      const TwoSums<T> of = h_of(i);
      return TwoSums<T>(of.first, mul(of.first, of.second));
    });
    return TwoSums<T>(means ? sums.first / static_cast<T>(n) : T(0), sums.second / static_cast<T>(n));
  };
  const auto write = [=](const TwoSums<T>& from, const auto& load) {
    write_row(y, n, whole, load, [=](int q, const auto& of) {
      return norm_gradient(of.first.of[q], of.second.of[q], from.first, from.second, rstd);
    });
  };
  if constexpr (caches) {
    T *w = dynamic_shared<T>(), *h = w + n;
    with_packs<T>(whole, [&](auto width) {
      each_pack<width(), 2>(
          n, [&](std::int64_t i) { return load(i, width); },
          [&](std::int64_t i, const auto& loaded) {
            const auto of = made(i, loaded);
            store_pack(w + i, of.first);
            store_pack(h + i, of.second);
          });
    });
    __syncthreads();
    write(finish([=](std::int64_t i) { return TwoSums<T>(w[i], h[i]); }),
          [=](std::int64_t i, auto width) { return two_packs<width()>(w + i, h + i); });
  } else {
    write(finish([=](std::int64_t i) {
            const auto of = made(i, load(i, Width<1>()));
            return TwoSums<T>(of.first.of[0], of.second.of[0]);
          }),
          [=](std::int64_t i, auto width) { return made(i, load(i, width)); });
  }
}

// The channels of rows that are kept in registers. `each`: each element is one, inner is 1.
template <bool each>
struct RegisterChannels {
  static constexpr bool of_each = each;
  int channels, inner;
  FastDivmod32 by_inner;
  std::int64_t groups;
  FastDivmod64 by_groups;

  explicit RegisterChannels(const GroupedChannels& s)
      : channels(static_cast<int>(s.channels)), inner(static_cast<int>(s.inner)), by_inner(inner), groups(s.groups),
        by_groups(groups) {}

  // The channels of a row begin here; that of element i is by_inner(i) on.
  __device__ std::int64_t first(std::int64_t row) const { return (row - by_groups.quotient(row) * groups) * channels; }
  // Whether pairs of a row have elements of one channel, or pairs of weight and bias.
  template <class T>
  __device__ bool whole(const T* weight, const T* bias) const {
    return each ? whole_pairs(0, weight, bias) : inner % 2 == 0;
  }

  // to = the elements begin .. begin + count of a thread, of `values`, which begin at the channels of the row.
  template <int count, class Rows, class T>
  __device__ void load(const T* values, const RowOfThread<Rows>& mine, bool whole, int begin, T (&to)[count]) const {
    if constexpr (each) {
      mine.load(values + mine.first, whole, begin, to);
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        if (whole && i % 2 == 1)
          to[i] = to[i - 1];
        else if (mine.has(begin + i))
          to[i] = values[by_inner(mine.first + mine.distance(begin + i))];
      }
    }
  }
};

// `means` is null for rms_norm.
template <class Rows, bool each, class T>
__global__ void __launch_bounds__(Rows::threads(1), Rows::at_once(1))
    norm_in_registers(std::int64_t rows, int n, RegisterChannels<each> s, const T* inputs, const T* weight,
                      const T* bias, T* outputs, T* means, T* rstds, T eps) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  const bool whole = whole_pairs(n, inputs, outputs) && s.whole(weight, bias);
  T x[Rows::elements];
  mine.load_all(mine.of(inputs), whole, T(0), x);
  T mean = T(0);
  if (means) mean = register_sum<Rows, 0, T>([&](int i) { return x[i]; }) / static_cast<T>(n);
  const T squares = register_sum<Rows, 1, T>([&](int i) { return mine.has(i) ? mul(x[i] - mean, x[i] - mean) : T(0); });
  const T rstd = norm_rstd(squares, n, eps);
  if (threadIdx.x == 0) {
    if (means) means[mine.row] = canonical(mean);
    rstds[mine.row] = canonical(rstd);
  }
  const std::int64_t channel = s.first(mine.row);
  mine.template each_batch<each ? 8 : 4>([&](int begin, auto width) {
    T y[width()], w[width()], b[width()];
#pragma unroll
    for (int i = 0; i < width(); ++i) w[i] = T(1), b[i] = -T(0);  // with these an fma is affine() without them
    if (weight) s.load(weight + channel, mine, whole, begin, w);
    if (bias) s.load(bias + channel, mine, whole, begin, b);
#pragma unroll
    for (int i = 0; i < width(); ++i) y[i] = fma(normalised(x[begin + i], mean, rstd), w[i], b[i]);
    mine.store(mine.of(outputs), whole, begin, y);
  });
}

template <class Rows, bool each, class T>
__global__ void __launch_bounds__(Rows::threads(2), Rows::at_once(2))
    norm_gradients_in_registers(std::int64_t rows, int n, RegisterChannels<each> s, const T* grads, const T* inputs,
                                const T* means, const T* rstds, const T* weight, T* results) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  const bool whole = whole_pairs(n, grads, inputs, results) && s.template whole<T>(weight, nullptr);
  const T mean = means ? means[mine.row] : T(0), rstd = rstds[mine.row];
  T w[Rows::elements], h[Rows::elements];  // the gradients of h, and h
  mine.load_all(mine.of(grads), whole, T(0), w);
  mine.load_all(mine.of(inputs), whole, T(0), h);
  if (weight) {
    const T* channels = weight + s.first(mine.row);
    mine.template each_batch<8>([&](int begin, auto width) {
      T of[width()] = {};
      s.load(channels, mine, whole, begin, of);
#pragma unroll
      for (int i = 0; i < width(); ++i) w[begin + i] = mul(w[begin + i], of[i]);
    });
  }
#pragma unroll
  for (int i = 0; i < Rows::elements; ++i) h[i] = normalised(h[i], mean, rstd);
  const auto sums = register_sum<Rows, 0, TwoSums<T>>(
      [&](int i) { return mine.has(i) ? TwoSums<T>(w[i], mul(w[i], h[i])) : TwoSums<T>(T(0)); });
  const T s_mean = means ? sums.first / static_cast<T>(n) : T(0), t_mean = sums.second / static_cast<T>(n);
#pragma unroll
  for (int i = 0; i < Rows::elements; ++i) w[i] = norm_gradient(w[i], h[i], s_mean, t_mean, rstd);
  mine.store(mine.of(results), whole, 0, w);
}

// f(RegisterRows<...>(), RegisterChannels<...>())
template <class F>
void with_register_norms(const GroupedChannels& s, const F& f) {
  with_register_rows<true>(s.n(), [&](auto how) {
    if (s.inner == 1)
      f(how, RegisterChannels<true>(s));
    else
      f(how, RegisterChannels<false>(s));
  });
}

// Writes y, rstd and, where it is given, mean.
template <class T>
void normalise(const GroupedChannels& s, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
               const Contract& contract, const Tensor& y, const Tensor& mean, const Tensor& rstd,
               const ExecContext& exec) {
  const SumOrder order(contract, s.n());
  if constexpr (std::is_same_v<T, float>)
    if (in_registers(s.n(), order, 1))
      return with_register_norms(s, [&](auto how, auto channels) {
        launch_register_rows(norm_in_registers<decltype(how), channels.of_each, T>, s.rows(), s.n(), exec, channels,
                             x.as<T>(), weight.as<T>(), bias.as<T>(), y.as<T>(), mean.as<T>(), rstd.as<T>(),
                             rounded_on_host<T>(eps));
      });
  launch_rows<T>(RowKernels<decltype(&norm_of_rows<true, T>)>{norm_of_rows<true, T>, norm_of_rows<false, T>}, 1,
                 s.rows(), s.n(), row_threads(s.n(), order), exec, NormRows(s), x.as<T>(), weight.as<T>(), bias.as<T>(),
                 y.as<T>(), mean.as<T>(), rstd.as<T>(), rounded_on_host<T>(eps), order);
}

// Writes the gradient of x.
template <class T>
void row_gradients(const GroupedChannels& s, const Tensor& grad, const Tensor& x, const Tensor& mean,
                   const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& result,
                   const ExecContext& exec) {
  const SumOrder order(contract, s.n());
  if constexpr (std::is_same_v<T, float>)
    if (in_registers(s.n(), order, 2))
      return with_register_norms(s, [&](auto how, auto channels) {
        launch_register_rows(norm_gradients_in_registers<decltype(how), channels.of_each, T>, s.rows(), s.n(), exec,
                             channels, grad.as<T>(), x.as<T>(), mean.as<T>(), rstd.as<T>(), weight.as<T>(),
                             result.as<T>());
      });
  launch_rows<T>(
      RowKernels<decltype(&norm_row_gradients<true, T>)>{norm_row_gradients<true, T>, norm_row_gradients<false, T>}, 2,
      s.rows(), s.n(), row_threads(s.n(), order), exec, NormRows(s), grad.as<T>(), x.as<T>(), mean.as<T>(),
      rstd.as<T>(), weight.as<T>(), result.as<T>(), order);
}

// Writes the gradients of x, of weight and, where it is wanted, of bias.
template <class T>
void gradients(const GroupedChannels& s, const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
               const Tensor& weight, const Contract& contract, const Tensor& result, const Tensor& grad_weight,
               const Tensor& grad_bias, const ExecContext& exec) {
  row_gradients<T>(s, grad, x, mean, rstd, weight, contract, result, exec);
  ChannelSums(s, {s.groups, 1}, contract, exec)
      .sum<TwoSums<T>>(ChannelGradients<T>{grad.as<T>(), x.as<T>(), mean.as<T>(), rstd.as<T>()},
                       WriteGradients<T>{grad_weight.as<T>(), grad_bias.as<T>()});
}

template <class T>
void layer_norm(const Tensor& input, Ints normalized, const Tensor& weight, const Tensor& bias, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const ExecContext& exec) {
  normalise<T>(normalized_rows(input, normalized), input, weight, bias, eps, contract, output, mean, rstd, exec);
}
template <class T>
void layer_norm_backward(const Tensor& grad, const Tensor& input, Ints normalized, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& output,
                         const Tensor& grad_weight, const Tensor& grad_bias, const ExecContext& exec) {
  gradients<T>(normalized_rows(input, normalized), grad, input, mean, rstd, weight, contract, output, grad_weight,
               grad_bias, exec);
}

template <class T>
void rms_norm(const Tensor& input, Ints normalized, const Tensor& weight, double eps, const Contract& contract,
              const Tensor& output, const Tensor& rstd, const ExecContext& exec) {
  normalise<T>(normalized_rows(input, normalized), input, weight, {}, eps, contract, output, {}, rstd, exec);
}
template <class T>
void rms_norm_backward(const Tensor& grad, const Tensor& input, Ints normalized, const Tensor& rstd,
                       const Tensor& weight, const Contract& contract, const Tensor& output, const Tensor& grad_weight,
                       const ExecContext& exec) {
  gradients<T>(normalized_rows(input, normalized), grad, input, {}, rstd, weight, contract, output, grad_weight, {},
               exec);
}

template <class T>
void group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                const Contract& contract, const Tensor& output, const Tensor& mean, const Tensor& rstd,
                const ExecContext& exec) {
  normalise<T>(grouped(input, num_groups), input, weight, bias, eps, contract, output, mean, rstd, exec);
}
template <class T>
void group_norm_backward(const Tensor& grad, const Tensor& input, std::int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Contract& contract, const Tensor& output,
                         const Tensor& grad_weight, const Tensor& grad_bias, const ExecContext& exec) {
  gradients<T>(grouped(input, num_groups), grad, input, mean, rstd, weight, contract, output, grad_weight, grad_bias,
               exec);
}

[[maybe_unused]] const AddKernel norm_kernels[] = {
    add_kernels<&layer_norm<float>, &layer_norm<double>>("layer_norm", Layout::rows),
    add_kernels<&layer_norm_backward<float>, &layer_norm_backward<double>>("layer_norm_backward", Layout::rows),
    add_kernels<&rms_norm<float>, &rms_norm<double>>("rms_norm", Layout::rows),
    add_kernels<&rms_norm_backward<float>, &rms_norm_backward<double>>("rms_norm_backward", Layout::rows),
    add_kernels<&group_norm<float>, &group_norm<double>>("group_norm", Layout::rows),
    add_kernels<&group_norm_backward<float>, &group_norm_backward<double>>("group_norm_backward", Layout::rows),
};

}  // namespace norm_rows_cu
}  // namespace repdl::cuda
