// The floating-point environment of the contract: rounded to nearest even, nothing flushed.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace repdl {

// Round to nearest even, gradual underflow, no traps; the caller's setting (FTZ, DAZ,
// another rounding mode) is put back at the end of the scope.
//
// Compilers do not know of the environment and may move arithmetic that they see across these
// switches. What is computed within belongs behind a call whose target they cannot see.
class IeeeScope {
 public:
#if defined(__SSE2__)
  IeeeScope() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~IeeeScope() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  IeeeScope() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
  ~IeeeScope() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  std::uint64_t saved_;
#else
  // Targets without a mode that flushes, or whose default environment does not.
  IeeeScope() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~IeeeScope() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
  IeeeScope(const IeeeScope&) = delete;
  IeeeScope& operator=(const IeeeScope&) = delete;
};

// body() in this environment, behind such a call.
template <class Body>
void in_ieee_scope(const Body& body) {
  void (*volatile call)(const Body&) = [](const Body& hidden) { hidden(); };
  const IeeeScope ieee;
  call(body);
}

}  // namespace repdl
