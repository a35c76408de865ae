// Positions, and the words of numbers from there on (random.md).
//
//   word(n, plane) = word n mod 4 of philox([low(n / 4), high(n / 4), low(stream), high(stream) << 16 | plane])
#pragma once

#include "repdl/backend.hpp"
#include "repdl/random/philox.hpp"

namespace repdl::random {

struct Position {
  std::uint64_t seed, stream, offset;

  // Of the tensor [seed, stream, offset], which the host reads.
  explicit Position(const Tensor& tensor) : seed(at(tensor, 0)), stream(at(tensor, 1)), offset(at(tensor, 2)) {}

  // The counter of block n / 4; its first two words are `block`'s, so that these may be a vector's.
  REPDL_HD std::uint32_t third() const { return static_cast<std::uint32_t>(stream); }
  REPDL_HD std::uint32_t fourth(int plane) const {
    return static_cast<std::uint32_t>(stream >> 32 << 16) | static_cast<std::uint32_t>(plane);
  }

  // The words of numbers 4 block to 4 block + 3.
  REPDL_HD Block<std::uint64_t> words(std::uint64_t block, int plane) const {
    return philox<std::uint64_t>({{block, block >> 32, third(), fourth(plane)}}, static_cast<std::uint32_t>(seed),
                                 static_cast<std::uint32_t>(seed >> 32));
  }

  // word(n, plane); for what few elements need.
  REPDL_HD std::uint32_t word(std::uint64_t n, int plane) const {
    const Block<std::uint64_t> four = words(n / 4, plane);
    const std::uint64_t low = n & 1 ? four.word[1] : four.word[0], high = n & 1 ? four.word[3] : four.word[2];
    return static_cast<std::uint32_t>(n & 2 ? high : low);
  }

 private:
  static std::uint64_t at(const Tensor& tensor, int i) {
    return static_cast<std::uint64_t>(tensor.as<std::int64_t>()[i * tensor.stride[0]]);
  }
};

// word(n, plane) above word(n, plane + 1).
REPDL_HD inline std::uint64_t wide(std::uint64_t high, std::uint64_t low) {
  return high << 32 | static_cast<std::uint32_t>(low);
}

constexpr int pairs_plane = 2;     // of the normal distribution; in double the one after it too
constexpr int second_attempt = 3;  // and the planes of those after it
constexpr int spawn_plane = 65535;

}  // namespace repdl::random
