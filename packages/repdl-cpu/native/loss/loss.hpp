// What the losses over class indices share: positions, weights, and their reduction.
#pragma once

#include "base/threads.hpp"
#include "reduce/sum.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/classes.hpp"

namespace repdl::cpu {

// A loss over targets (N, inner) of classes (N, C, inner); weight (C) or null.
template <class T>
struct ClassLossOf {
  const std::int64_t* target;
  const T* weight;
  std::int64_t n, classes, inner, ignore;
  Reduction reduction;
  Contract contract;
  int threads;

  std::int64_t positions() const { return n * inner; }
  bool counted(std::int64_t i) const { return target[i] != ignore; }

  // losses[i] = -(w_t * log_p(i)), +0 where ignored; then their reduction and the total
  // weight (nll_loss.md). out may be losses itself for Reduction::none.
  template <class F>
  void forward(const F& log_p, T* losses, T* out, T* total) const {
    parallel_for(positions(), 1 << 10, threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        T loss = 0;
        if (counted(i)) loss = weight ? -(weight[target[i]] * log_p(i)) : -log_p(i);
        losses[i] = canonical(loss);
      }
    });
    parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
      T sum_of_weights = 0;
      if (weight) {
        sum_of_weights =
            sum_of(positions(), contract, [this](std::int64_t i) { return counted(i) ? weight[target[i]] : T(0); });
      } else {
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < positions(); ++i) count += counted(i);
        sum_of_weights = static_cast<T>(count);
      }
      *total = canonical(sum_of_weights);
      if (reduction == Reduction::none) return;
      const T sum = sum_row(losses, positions(), 1, contract);
      *out = canonical(reduction == Reduction::mean ? sum / sum_of_weights : sum);
    });
  }

  // The factor of position i in the gradient.
  T scale(const T* grad, T total, std::int64_t i) const {
    T g = reduction == Reduction::none ? grad[i] : *grad;
    if (reduction == Reduction::mean) g = g / total;
    return weight ? weight[target[i]] * g : g;
  }
};

template <class T>
ClassLossOf<T> class_loss(const Tensor& target, const Tensor& weight, const Around& sizes, std::int64_t ignore,
                          std::string_view reduction, const Contract& contract, const ExecContext& exec) {
  return {target.as<std::int64_t>(), weight.as<T>(), sizes.outer, sizes.n, sizes.inner, ignore,
          reduction_of(reduction),   contract,       exec.threads};
}

// Where the losses of the positions go: the output, or memory of their own before they are reduced.
template <class T>
T* losses_of(const ClassLossOf<T>& loss, const Tensor& output, const ExecContext& exec) {
  return loss.reduction == Reduction::none ? output.as<T>() : exec.workspace<T>(loss.positions());
}

}  // namespace repdl::cpu
