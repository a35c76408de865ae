// Large memory in huge pages, where the system gives them on request: the first touch of each page of 4 KiB costs more
// than most kernels spend on it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#pragma GCC visibility push(hidden)
namespace repdl {

constexpr std::size_t huge_from = std::size_t{4} << 20;  // bytes; smaller blocks are rarely fresh from the system

// Asks for them behind the whole pages of a range of memory. Only advice: a system that has none, or gives none,
// leaves everything as it was.
inline void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes < huge_from) return;
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + page - 1) / page * page, end = (address + bytes) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace repdl
#pragma GCC visibility pop
