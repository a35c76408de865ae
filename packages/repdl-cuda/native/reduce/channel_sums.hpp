// Sums over the elements of each channel, by the whole grid: for the norms.
#pragma once

#include "reduce/grid_sum.hpp"
#include "repdl/contract/norm.hpp"

namespace repdl::cuda {

// An element of (batch, groups, channels, inner), and the mean and rstd that are its own.
using Where = Shape<2>::Offsets;

// finish(channel, sum over (batch, inner)). statistics: how far apart those of two elements of the
// batch and of two groups are.
struct ChannelSums {
  const char* op;
  Shape<2> kept, reduced;
  std::int64_t lanes, block;
  const Stream& stream;

  ChannelSums(const char* name, const Sizes& sizes, const std::array<std::int64_t, 2>& statistics,
              std::int64_t sum_lanes, std::int64_t sum_block, const Stream& where)
      : op(name),
        kept(op, {sizes.at(1), sizes.at(2)}, {Sizes{sizes.at(2) * sizes.at(3), sizes.at(3)}, Sizes{statistics[1], 0}}),
        reduced(op, {sizes[0], sizes[3]}, {Sizes{sizes[1] * sizes[2] * sizes[3], 1}, Sizes{statistics[0], 0}}),
        lanes(sum_lanes), block(sum_block), stream(where) {}

  template <class V, class Element, class Finish>
  void run(const Element& element, const Finish& finish, Address work) const {
    grid_sum<V>(op, element, finish, work, kept, reduced, lanes, block, stream);
  }
};

// grad * h and grad of an element. Without means they are +0.
template <class T>
struct ChannelGradients {
  const T *grad, *x, *mean, *rstd;

  __device__ Pair<T> operator()(const Where& where) const {
    const std::int64_t at = where.at[0], statistic = where.at[1];
    return {mul(grad[at], normalised(x[at], mean ? mean[statistic] : T(0), rstd[statistic])), grad[at]};
  }
};

// The gradients of weight and bias; that of bias may be null.
template <class T>
struct WriteGradients {
  T *weight, *bias;

  __device__ void operator()(std::int64_t channel, Pair<T> sums) const {
    weight[channel] = canonical(sums.first);
    if (bias) bias[channel] = canonical(sums.second);
  }
};

}  // namespace repdl::cuda
