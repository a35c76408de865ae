// The Python module of one ISA: its table of kernels.
#include <pybind11/pybind11.h>

#include "base/openmp.hpp"
#include "base/routes.hpp"
#include "repdl/python.hpp"

PYBIND11_MODULE(REPDL_MODULE, module) {
  if (!repdl::python::add_table(module.ptr())) throw pybind11::error_already_set();
  module.def("thread_team", [] { return repdl::cpu::openmp().parallel ? repdl::cpu::openmp().name : "repdl-cpu"; });
#if defined(REPDL_COUNT_ROUTES)
  module.def("routes", [] {
    pybind11::dict taken;
    for (const auto& [name, count] : repdl::cpu::routes()) taken[name.c_str()] = count.load();
    return taken;
  });
#endif
}
