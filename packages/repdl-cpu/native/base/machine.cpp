// What depends on the machine and not on an ISA: which modules it can run, its threads and its pages.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>

#include "base/isas.hpp"
#include "base/openmp.hpp"
#include "repdl/huge_pages.hpp"

PYBIND11_MODULE(_machine, module, pybind11::mod_gil_not_used()) {
  module.def("supported_isas", &repdl::cpu::supported_isas);
  module.def("thread_team", [] { return repdl::cpu::openmp().parallel ? repdl::cpu::openmp().name : "repdl-cpu"; });
  module.attr("HUGE_FROM") = repdl::huge_from;
  module.def("prefer_huge_pages", [](std::uintptr_t address, std::size_t bytes) {
    repdl::prefer_huge_pages(reinterpret_cast<void*>(address), bytes);
  });
}
