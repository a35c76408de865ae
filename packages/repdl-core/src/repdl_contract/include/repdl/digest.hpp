// A digest of 64 bits of bytes, as repdl/records/hashing.py defines it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace repdl {

inline std::uint64_t digest_mix(std::uint64_t word) {
  word ^= word >> 32;
  word *= 0xbf58476d1ce4e5b9u;
  return word ^ (word >> 32);
}

// The word whose bytes, of which there are `count`, are little-endian; the others are zeros.
inline std::uint64_t digest_word(const unsigned char* bytes, std::size_t count) {
  std::uint64_t word = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  std::memcpy(&word, bytes, count);
#else
  for (std::size_t i = 0; i < count; ++i) word |= std::uint64_t{bytes[i]} << (8 * i);
#endif
  return word;
}

inline std::uint64_t digest_of_bytes(const unsigned char* bytes, std::size_t length) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  std::uint64_t total = length, place = step;
  std::size_t i = 0;
  for (; i + 8 <= length; i += 8, place += step) total += digest_mix(digest_word(bytes + i, 8) + place);
  if (i < length) total += digest_mix(digest_word(bytes + i, length - i) + place);
  return digest_mix(total);
}

}  // namespace repdl
