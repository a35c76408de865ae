// cp.async for host C++; see emulation.hpp for when a copy is made.
#pragma once

#include "emulation.hpp"

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros = 0) {
  repdl::emulation::copy_later(to, from, bytes, zeros);
}
inline void __pipeline_commit() { repdl::emulation::commit_copies(); }
inline void __pipeline_wait_prior(std::size_t groups_left) { repdl::emulation::wait_copies(groups_left); }
