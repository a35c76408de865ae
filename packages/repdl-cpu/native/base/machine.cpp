// What depends on the machine and not on an ISA: which modules it can run, and its pages.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "repdl/huge_pages.hpp"

namespace {

// Best first. __builtin_cpu_supports checks the operating system's support too.
std::vector<std::string> supported_isas() {
  std::vector<std::string> isas;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    isas.emplace_back("avx512");
  if (avx2) isas.emplace_back("avx2");
#endif
  isas.emplace_back("baseline");
  return isas;
}

}  // namespace

PYBIND11_MODULE(_machine, module) {
  module.def("supported_isas", &supported_isas);
  module.attr("HUGE_FROM") = repdl::huge_from;
  module.def("prefer_huge_pages", [](std::uintptr_t address, std::size_t bytes) {
    repdl::prefer_huge_pages(reinterpret_cast<void*>(address), bytes);
  });
}
