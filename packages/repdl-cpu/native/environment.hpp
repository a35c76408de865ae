// The floating-point environment that every kernel runs in.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace repdl::cpu {

// Round to nearest even, gradual underflow, no traps; the caller's setting (FTZ, DAZ,
// another rounding mode) is put back at the end of the scope.
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
  // Other targets: no flush-to-zero mode is in common use; the default is assumed.
  IeeeScope() {}
#endif
  IeeeScope(const IeeeScope&) = delete;
  IeeeScope& operator=(const IeeeScope&) = delete;
};

}  // namespace repdl::cpu
