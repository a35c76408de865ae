// Sums over the elements of each channel, by the whole grid: for the norms.
#pragma once

#include "reduce/grid_sum.hpp"
#include "repdl/contract/norm.hpp"
#include "repdl/shape/channels.hpp"

namespace repdl::cuda {

// An element of (batch, groups, channels, inner), and the mean and rstd that are its own.
using Where = Shape<2>::Offsets;

// finish(channel, sum over (batch, inner)). statistics: how far apart those of two elements of the
// batch and of two groups are.
struct ChannelSums {
  Shape<2> outer, reduced;
  const Contract& contract;
  const ExecContext& exec;

  ChannelSums(const GroupedChannels& s, const std::array<std::int64_t, 2>& statistics, const Contract& order,
              const ExecContext& context)
      : outer(context.op, {s.groups, s.channels}, {Sizes{s.n(), s.inner}, Sizes{statistics[1], 0}}),
        reduced(context.op, {s.batch, s.inner}, {Sizes{s.groups * s.n(), 1}, Sizes{statistics[0], 0}}), contract(order),
        exec(context) {}

  template <class V, class Element, class Finish>
  void sum(const Element& element, const Finish& finish) const {
    grid_sum<V>(element, finish, outer, reduced, contract, exec);
  }
};

// grad * h and grad of an element. Without means they are +0.
template <class T>
struct ChannelGradients {
  const T *grad, *x, *mean, *rstd;

  __device__ TwoSums<T> operator()(const Where& where) const {
    const std::int64_t at = where.at[0], statistic = where.at[1];
    return {mul(grad[at], normalised(x[at], mean ? mean[statistic] : T(0), rstd[statistic])), grad[at]};
  }
};

// The gradients of weight and bias; that of bias may be null.
template <class T>
struct WriteGradients {
  T *weight, *bias;

  __device__ void operator()(std::int64_t channel, TwoSums<T> sums) const {
    weight[channel] = canonical(sums.first);
    if (bias) bias[channel] = canonical(sums.second);
  }
};

}  // namespace repdl::cuda
