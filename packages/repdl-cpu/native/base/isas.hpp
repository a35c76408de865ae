// The ISA levels that this processor and its operating system can run.
#pragma once

#include <string>
#include <vector>

namespace repdl::cpu {

// Best first. __builtin_cpu_supports checks the operating system's support too.
inline std::vector<std::string> supported_isas() {
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

}  // namespace repdl::cpu
