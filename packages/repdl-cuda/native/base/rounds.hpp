// Second rounds of loops, counted in the emulated build (tests/test_launches.py wants each of them); nothing elsewhere.
//
//   for (std::int64_t i = thread_index(); i < n; i += step) {
//     if (i >= step) REPDL_ROUND("pow: elements of a thread");
//
// A round is known from when the module is loaded, so that those never reached have a name too.
#pragma once

#if defined(REPDL_EMULATED)

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace repdl::cuda {

// Relaxed, so that a sanitizer of threads sees neither a race here nor an order of the threads that count.
using Rounds = std::map<std::string, std::atomic<std::int64_t>>;

inline Rounds& rounds() {
  static Rounds all;
  return all;
}

template <class Here>
struct Round {
  static inline std::atomic<std::int64_t>& count = rounds()[Here::name()];
};

}  // namespace repdl::cuda

#define REPDL_ROUND(what)                                                    \
  do {                                                                       \
    struct Here {                                                            \
      static const char* name() { return what; }                             \
    };                                                                       \
    repdl::cuda::Round<Here>::count.fetch_add(1, std::memory_order_relaxed); \
  } while (false)

#else

#define REPDL_ROUND(what) static_cast<void>(0)

#endif
