// The Python module: its table of kernels, and whether they can run.
#include <pybind11/pybind11.h>

#include "base/device.hpp"
#include "repdl/python.hpp"

PYBIND11_MODULE(REPDL_MODULE, module) {
  module.def("no_device", repdl::cuda::no_device);
  repdl::python::add_table(module.ptr());
}
