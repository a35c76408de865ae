// What the losses over class indices share: targets, their weights, the factor of a gradient.
#pragma once

#include "base/launch.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cuda {

enum class Reduction { none, mean, sum };

// Targets (N, inner) of classes (N, C, inner); weight (C) or null.
template <class T>
struct ClassTargets {
  const std::int64_t* target;
  const T* weight;
  std::int64_t classes, inner, ignore;

  __device__ bool counted(std::int64_t i) const { return target[i] != ignore; }
  // Class c of position i in (N, C, inner).
  __device__ std::int64_t place(std::int64_t i, std::int64_t c) const {
    return (i / inner * classes + c) * inner + i % inner;
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

// sizes: N, C and the positions beside them.
template <class T>
ClassTargets<T> class_targets(Address target, Address weight, const Sizes& sizes, std::int64_t ignore) {
  return {in<std::int64_t>(target), in<T>(weight), sizes.at(1), sizes.at(2), ignore};
}

}  // namespace repdl::cuda
