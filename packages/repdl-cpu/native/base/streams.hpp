// Several streams of memory at once: it delivers two or four faster than one.
//
//   stream_length(n, streams)   how long they are, and how far apart
//   in_streams(n, body)         body(i) for every i < n
#pragma once

#include <cstdint>

#include "base/routes.hpp"
#include "base/tuned.hpp"

#if defined(__clang__)
#define REPDL_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define REPDL_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

namespace repdl::cpu {

// About n / streams, 0 if n is too short. Odd: streams a power of two apart share cache sets.
inline std::int64_t stream_length(std::int64_t n, std::int64_t streams) {
  const std::int64_t length = n / streams;
  return length - (length > 1 && length % 2 == 0);
}

// For passes that read and write a few arrays; body's arrays don't overlap but where they are the
// same. Two streams, which begin at different places of a page (Zen 3, Adam on 1e7 parameters: 0.95 of
// the time of one). At the same place of a page, lines of all streams share a set of the first cache.
// Four streams took 1.5 times as long then; apart, they are slower where other cores need the memory.
template <class Body>
void in_streams(std::int64_t n, const Body& given) {
  const Body body = given;  // a copy of the loop's own, which no store can reach
  constexpr std::int64_t page = tuned(1024, 128), shift = page / 4, streams = 2, at_once = 32;
  const std::int64_t pages = stream_length(n / page, streams), length = pages > 0 ? (pages - 1) * page + shift : 0;
  if (length > 0) REPDL_ROUTE("step: streams");
  if (length > page) REPDL_ROUTE("step: streams of several pages");
  for (std::int64_t i = 0; i < length; i += at_once)
    for (std::int64_t s = 0; s < streams; ++s) {
      REPDL_VECTOR_LOOP
      for (std::int64_t j = 0; j < at_once; ++j) body(i + s * length + j);
    }
  REPDL_VECTOR_LOOP
  for (std::int64_t i = length * streams; i < n; ++i) body(i);
}

}  // namespace repdl::cpu
