// The floating-point environment that every kernel runs in (repdl/ieee_scope.hpp).
#pragma once

#include <cfloat>

#include "repdl/ieee_scope.hpp"

// Where the promise could not be kept, nothing is built.
#if !defined(__GNUC__)
#error "repdl-cpu: this compiler is unknown; use gcc 9 or clang 12, or newer"
#elif defined(_WIN32) && !defined(REPDL_WINDOWS_KERNELS)  // tools/targets/replay.py builds them there
#error "repdl-cpu: Windows is not supported; use Linux (WSL) or macOS"
#elif defined(__FAST_MATH__)
#error "repdl-cpu: -ffast-math changes results; leave it out"
#elif FLT_EVAL_METHOD != 0
#error "repdl-cpu: this target computes float in a wider type; on 32-bit x86 use -msse2 -mfpmath=sse"
#elif (defined(__ARM_NEON) && !defined(__aarch64__)) || defined(__mips__)
#error "repdl-cpu: 32-bit NEON always flushes subnormals, and MIPS's default environment may; neither is supported"
#endif
