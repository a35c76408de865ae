// What each family gives to Python: functions that launch its kernels, in <family>.cu.
//
// Tensors are addresses and element strides; the last argument says where to run. Those that
// are templates have float kernels in the module and double ones in its submodule f64
// (module.cpp). A new family adds its lines here and in module.cpp, nothing else.
#pragma once

#include "base/types.hpp"

namespace repdl::cuda {

template <class T>
void adam_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double beta1,
               double beta2, double eps, double weight_decay, double bias_correction1, double bias_correction2,
               bool maximize, bool decoupled, const Stream& stream);

template <class T>
void sgd_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double weight_decay,
              double momentum, double dampening, bool nesterov, bool maximize, bool first, const Stream& stream);

}  // namespace repdl::cuda
