// What the losses over class indices share: targets, their weights, the factor of a gradient, and the
// sums over the positions.
#pragma once

#include "base/expect.hpp"
#include "reduce/grid_sum.hpp"
#include "repdl/shape/classes.hpp"

namespace repdl::cuda {

// Targets (N, inner) of classes (N, C, inner); weight (C) or null.
template <class T>
struct ClassTargets {
  const std::int64_t* target;
  const T* weight;
  std::int64_t classes, inner, ignore;
  FastDivmod64 by_classes, by_inner;

  // Whether position i has a class, and whether it does if its target is t.
  __device__ bool counted(std::int64_t i) const { return is_class(target[i]); }
  __device__ bool is_class(std::int64_t t) const {
    if (t == ignore) return false;
    expect(t >= 0 && t < classes, "a target is neither a class nor ignore_index");
    return true;
  }
  // Class c of position i in (N, C, inner).
  __device__ std::int64_t place(std::int64_t i, std::int64_t c) const {
    const std::int64_t n = by_inner.quotient(i);
    return (n * classes + c) * inner + i - n * inner;
  }

  // losses[i] = -(w_t * log_p), +0 where ignored; and w_t into `weights`, which is null without weight.
  __device__ void write_loss(std::int64_t i, T log_p, T* losses, T* weights) const {
    T loss = T(0), w = T(0);
    if (counted(i)) {
      if (weight) w = weight[target[i]];
      loss = weight ? -mul(w, log_p) : -log_p;
    }
    losses[i] = canonical(loss);
    if (weights) weights[i] = w;
  }

  // The factor of position i in the gradient.
  __device__ T scale(Reduction reduction, const T* grad, const T* total, std::int64_t i) const {
    T g = reduction == Reduction::none ? grad[i] : *grad;
    if (reduction == Reduction::mean) g = g / *total;
    return weight ? mul(weight[target[i]], g) : g;
  }
};

template <class T>
ClassTargets<T> class_targets(const Tensor& target, const Tensor& weight, const Around& sizes, std::int64_t ignore) {
  return {target.as<std::int64_t>(), weight.as<T>(),           sizes.n, sizes.inner, ignore,
          FastDivmod64(sizes.n),     FastDivmod64(sizes.inner)};
}

// The losses of all positions, and with weight the weights of their targets, before they are reduced.
template <class T>
struct Losses {
  T *losses, *weights;
  std::int64_t positions;
  Reduction reduction;

  Losses(const Tensor& target, const Tensor& weight, std::string_view name, const Tensor& output,
         const ExecContext& exec)
      : weights(weight.given ? exec.workspace<T>(target.count()) : nullptr), positions(target.count()),
        reduction(reduction_of(name)) {
    losses = reduction == Reduction::none ? output.as<T>() : exec.workspace<T>(positions);
  }
};

template <class T>
struct OneOf {
  const T* x;
  __device__ T operator()(const Shape<1>::Offsets& where) const { return x[where.at[0]]; }
};

// Whole numbers: any order of their sum is exact.
template <class T>
struct Counted {
  ClassTargets<T> targets;
  __device__ std::int64_t operator()(const Shape<1>::Offsets& where) const { return targets.counted(where.at[0]); }
};

template <class T>
struct WriteTotal {
  T* to;
  __device__ void operator()(std::int64_t, T sum) const { *to = canonical(sum); }
  __device__ void operator()(std::int64_t, std::int64_t count) const { *to = static_cast<T>(count); }  // rounded once
};

template <class T>
struct WriteLoss {
  T* to;
  const T* total;
  Reduction reduction;
  __device__ void operator()(std::int64_t, T sum) const {
    *to = canonical(reduction == Reduction::mean ? sum / *total : sum);
  }
};

// The total weight of the targets, and the losses reduced (nll_loss.md).
template <class T>
void reduce_losses(const Losses<T>& made, const ClassTargets<T>& targets, const Contract& contract,
                   const Tensor& output, const Tensor& total, const ExecContext& exec) {
  const Shape<1> one(exec.op, {}, {Sizes{}}), all(exec.op, {made.positions}, {Sizes{1}});
  const WriteTotal<T> write{total.as<T>()};
  if (made.weights)
    grid_sum<T>(OneOf<T>{made.weights}, write, one, all, contract, exec);
  else
    grid_sum<std::int64_t>(Counted<T>{targets}, write, one, all, contract, exec);
  if (made.reduction != Reduction::none)
    grid_sum<T>(OneOf<T>{made.losses}, WriteLoss<T>{output.as<T>(), total.as<T>(), made.reduction}, one, all, contract,
                exec);
}

}  // namespace repdl::cuda
