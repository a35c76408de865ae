// What the bindings of every op share: tensors arrive as addresses and element strides.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

namespace repdl::cpu {

namespace py = pybind11;

using Address = std::uintptr_t;
using Sizes = std::vector<std::int64_t>;

inline const float* in(Address address) { return reinterpret_cast<const float*>(address); }
inline float* out(Address address) { return reinterpret_cast<float*>(address); }

template <class T>
const T* in(Address address) {
  return reinterpret_cast<const T*>(address);
}
template <class T>
T* out(Address address) {
  return reinterpret_cast<T*>(address);
}

// Each family of ops adds its functions; defined in <family>.cpp. Those that are templates
// have float kernels in the module and double ones in its submodule f64.
template <class T>
void bind_adam_step(py::module_& module);
template <class T>
void bind_sgd_step(py::module_& module);

}  // namespace repdl::cpu
