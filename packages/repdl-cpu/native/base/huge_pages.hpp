// Large memory in huge pages, where the system gives them on request: a first touch of each small one costs more than
// to pack a matrix into it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace repdl::cpu {

constexpr std::size_t huge_from = std::size_t{4} << 20;  // bytes; smaller blocks stay in their thread (scratch.hpp)

// Asks for them; `data` is aligned to a page, and may be anything else.
inline void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes >= huge_from) madvise(data, bytes, MADV_HUGEPAGE);  // without them, all is as it was
#endif
}

}  // namespace repdl::cpu
