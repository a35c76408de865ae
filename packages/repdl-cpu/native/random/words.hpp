// The words of numbers in a row, a vector of blocks at a time: one lane, one block (repdl/random/philox.hpp).
#pragma once

#include <algorithm>

#include "base/threads.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "repdl/random/position.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

// 64 bits a lane. Lane 2 k is block k, lane 2 k + 1 block width / 2 + k: so the blocks that `interleave` makes
// of a register's halves come in order.
#if defined(__AVX512F__)

struct Lanes {
  static constexpr int width = 8;
  __m512i v;

  static Lanes first() { return {_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7)}; }
  static Lanes set1(std::uint64_t x) { return {_mm512_set1_epi64(static_cast<long long>(x))}; }
};

inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_epi64(a.v, b.v)}; }
inline Lanes operator^(Lanes a, Lanes b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline Lanes product(Lanes a, std::uint32_t b) {
  return {_mm512_maskz_mul_epu32(0xff, a.v, _mm512_set1_epi64(b))};  // gcc 12 warns of the plain one
}
inline Lanes high_word(Lanes a) { return {_mm512_maskz_srli_epi64(0xff, a.v, 32)}; }

// The words of each lane's block one after the other, blocks in order.
inline void store(const random::Block<Lanes>& block, std::uint32_t* out) {
  const auto pair = [](Lanes low, Lanes high) {
    return _mm512_mask_shuffle_epi32(low.v, 0xaaaa, high.v, _MM_PERM_CCAA);
  };
  const __m512i low = pair(block.word[0], block.word[1]), high = pair(block.word[2], block.word[3]);
  _mm512_storeu_si512(out, _mm512_maskz_unpacklo_epi64(0xff, low, high));
  _mm512_storeu_si512(out + 16, _mm512_maskz_unpackhi_epi64(0xff, low, high));
}

#elif defined(__AVX2__)

struct Lanes {
  static constexpr int width = 4;
  __m256i v;

  static Lanes first() { return {_mm256_setr_epi64x(0, 2, 1, 3)}; }
  static Lanes set1(std::uint64_t x) { return {_mm256_set1_epi64x(static_cast<long long>(x))}; }
};

inline Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_epi64(a.v, b.v)}; }
inline Lanes operator^(Lanes a, Lanes b) { return {_mm256_xor_si256(a.v, b.v)}; }
inline Lanes product(Lanes a, std::uint32_t b) { return {_mm256_mul_epu32(a.v, _mm256_set1_epi64x(b))}; }
inline Lanes high_word(Lanes a) { return {_mm256_srli_epi64(a.v, 32)}; }

inline void store(const random::Block<Lanes>& block, std::uint32_t* out) {
  const auto pair = [](Lanes low, Lanes high) {
    return _mm256_blend_epi32(low.v, _mm256_slli_epi64(high.v, 32), 0xaa);
  };
  const __m256i low = pair(block.word[0], block.word[1]), high = pair(block.word[2], block.word[3]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_unpacklo_epi64(low, high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_unpackhi_epi64(low, high));
}

#elif defined(__SSE2__)

struct Lanes {
  static constexpr int width = 2;
  __m128i v;

  static Lanes first() { return {_mm_set_epi64x(1, 0)}; }
  static Lanes set1(std::uint64_t x) { return {_mm_set1_epi64x(static_cast<long long>(x))}; }
};

inline Lanes operator+(Lanes a, Lanes b) { return {_mm_add_epi64(a.v, b.v)}; }
inline Lanes operator^(Lanes a, Lanes b) { return {_mm_xor_si128(a.v, b.v)}; }
inline Lanes product(Lanes a, std::uint32_t b) { return {_mm_mul_epu32(a.v, _mm_set1_epi64x(b))}; }
inline Lanes high_word(Lanes a) { return {_mm_srli_epi64(a.v, 32)}; }

inline void store(const random::Block<Lanes>& block, std::uint32_t* out) {
  const auto pair = [](Lanes low, Lanes high) {
    return _mm_or_si128(_mm_and_si128(low.v, _mm_set1_epi64x(0xffffffff)), _mm_slli_epi64(high.v, 32));
  };
  const __m128i low = pair(block.word[0], block.word[1]), high = pair(block.word[2], block.word[3]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_unpacklo_epi64(low, high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 4), _mm_unpackhi_epi64(low, high));
}

#else

struct Lanes {
  static constexpr int width = 1;
  std::uint64_t v;

  static Lanes first() { return {0}; }
  static Lanes set1(std::uint64_t x) { return {x}; }
};

inline Lanes operator+(Lanes a, Lanes b) { return {a.v + b.v}; }
inline Lanes operator^(Lanes a, Lanes b) { return {a.v ^ b.v}; }
inline Lanes product(Lanes a, std::uint32_t b) { return {random::product(a.v, b)}; }
inline Lanes high_word(Lanes a) { return {random::high_word(a.v)}; }

inline void store(const random::Block<Lanes>& block, std::uint32_t* out) {
  for (int j = 0; j < 4; ++j) out[j] = static_cast<std::uint32_t>(block.word[j].v);
}

#endif

inline Lanes operator^(Lanes a, std::uint64_t b) { return a ^ Lanes::set1(b); }

// How many blocks are made at once: their words stay in L1.
constexpr std::int64_t blocks_at_once = tuned(256, 16), words_at_once = 4 * blocks_at_once;

// Elements in a row, whose words are those of `blocks` blocks from `block` on, but for the first `skip`.
struct Batch {
  std::int64_t element, count, blocks, skip;
  std::uint64_t block;
};

// Calls body(batch) for the batches of elements [begin, end) of a draw at a position.
template <class Body>
void in_batches(const random::Position& at, std::int64_t begin, std::int64_t end, const Body& body) {
  [[maybe_unused]] const std::int64_t start = begin;
  while (begin < end) {
    const std::uint64_t number = at.offset + static_cast<std::uint64_t>(begin);
    const std::int64_t skip = static_cast<std::int64_t>(number % 4);
    const std::int64_t count = std::min(end - begin, words_at_once - skip);
    if (begin > start) REPDL_ROUTE("draw: second batch");
    body(Batch{begin, count, (skip + count + 3) / 4, skip, number / 4});
    begin += count;
  }
}

// The words of a batch's blocks; up to words_at_once are written.
inline void fill_words(const random::Position& at, const Batch& batch, int plane, std::uint32_t* words) {
  const std::uint32_t k0 = static_cast<std::uint32_t>(at.seed), k1 = static_cast<std::uint32_t>(at.seed >> 32);
  const Lanes third = Lanes::set1(at.third()), fourth = Lanes::set1(at.fourth(plane));
  Lanes counter = Lanes::set1(batch.block) + Lanes::first();
  for (std::int64_t b = 0; b < batch.blocks; b += Lanes::width) {
    store(random::philox<Lanes>({{counter, high_word(counter), third, fourth}}, k0, k1), words + 4 * b);
    counter = counter + Lanes::set1(Lanes::width);
  }
}

}  // namespace repdl::cpu
