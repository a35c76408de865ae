// Sizes on which speed depends, and no bit: shares of threads, blocks, pieces.
//
//   constexpr std::int64_t block = tuned(512, 32);
//
// A build for tests (REPDL_SMALL_SIZES: tests/test_routes.py) has the second number, so that small cases go around
// every loop a second time and every thread has a share.
#pragma once

#include <cstdint>

namespace repdl::cpu {

#if defined(REPDL_SMALL_SIZES)
constexpr std::int64_t tuned(std::int64_t, std::int64_t small) { return small; }
#else
constexpr std::int64_t tuned(std::int64_t usual, std::int64_t) { return usual; }
#endif

}  // namespace repdl::cpu
