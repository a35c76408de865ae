// Which of the ISA modules this processor and operating system can run.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

namespace {

// Best first. __builtin_cpu_supports checks the operating system's support too.
std::vector<std::string> supported_isas() {
  std::vector<std::string> isas;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    isas.emplace_back("avx512");
  if (avx2) isas.emplace_back("avx2");
#endif
  isas.emplace_back("baseline");
  return isas;
}

}  // namespace

PYBIND11_MODULE(_detect, module) { module.def("supported_isas", &supported_isas); }
