// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A Lane is 64 bits, or a vector of such of a CPU, of which the low 32 are a word: products need 64, and what
// lies above a word is never read. A vector computes as many blocks at once as it has lanes.
#pragma once

#include <cstdint>

#include "repdl/host_device.hpp"

namespace repdl::random {

template <class Lane>
struct Block {
  Lane word[4];
};

// The product of two words, and its high half.
REPDL_HD_INLINE std::uint64_t product(std::uint64_t a, std::uint32_t b) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) * b;
}
REPDL_HD_INLINE std::uint64_t high_word(std::uint64_t a) { return a >> 32; }

// The block of a counter under the key (k0, k1).
template <class Lane>
REPDL_HD_INLINE Block<Lane> philox(Block<Lane> counter, std::uint32_t k0, std::uint32_t k1) {
  Block<Lane> c = counter;
  for (int round = 0; round < 10; ++round) {
    const Lane p = product(c.word[0], 0xd2511f53u), q = product(c.word[2], 0xcd9e8d57u);
    c = {{high_word(q) ^ c.word[1] ^ std::uint64_t{k0}, q, high_word(p) ^ c.word[3] ^ std::uint64_t{k1}, p}};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

}  // namespace repdl::random
