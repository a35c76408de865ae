// The Python module: its table of kernels, and whether they can run.
#include <pybind11/pybind11.h>

#include "base/device.hpp"
#include "base/rounds.hpp"
#include "repdl/python.hpp"

#if defined(REPDL_EMULATED)
#include "emulation.hpp"
#endif

PYBIND11_MODULE(REPDL_MODULE, module, pybind11::mod_gil_not_used()) {
  module.def("no_device", repdl::cuda::no_device);
  if (!repdl::python::add_table(module.ptr())) throw pybind11::error_already_set();
#if defined(REPDL_EMULATED)
  module.def("take_streams", [] {
    pybind11::list all;
    for (void* stream : repdl::emulation::streams()) all.append(reinterpret_cast<std::uintptr_t>(stream));
    repdl::emulation::streams().clear();
    return all;
  });
  module.def("rounds", [] {
    pybind11::dict reached;
    for (const auto& [name, count] : repdl::cuda::rounds()) reached[name.c_str()] = count.load();
    return reached;
  });
#endif
}
