// Python's view of ops.hpp: the functions of float in the module, those of double in `f64`.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/device.hpp"
#include "base/ops.hpp"
#include "repdl/python.hpp"

namespace {

namespace py = pybind11;

// Without the interpreter's lock: the emulated build computes for a while.
template <class Function>
void def(py::module_& module, const char* name, Function function) {
  module.def(name, function, py::call_guard<py::gil_scoped_release>());
}

template <class T>
void bind(py::module_& module) {
  using namespace repdl::cuda;
  def(module, "adam_step", adam_step<T>);
  def(module, "sgd_step", sgd_step<T>);
}

}  // namespace

PYBIND11_MODULE(REPDL_MODULE, module) {
  using namespace repdl::cuda;
  py::module_ f64 = module.def_submodule("f64");
  bind<float>(module);
  bind<double>(f64);
  def(module, "no_device", no_device);
  repdl::python::add_table(module.ptr());
}
