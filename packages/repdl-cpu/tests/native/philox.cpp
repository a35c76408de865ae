// Philox of one block, and of a vector of blocks, against the known answers of Random123; batches of draws:
// test_draws.py.
//
//     philox                     prints what is wrong with batches of draws
//     philox C0 C1 C2 C3 K0 K1   prints the block of one, then that of each lane of a vector, in hexadecimal
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "random/words.hpp"

namespace {

using repdl::cpu::Lanes;

// Above a word lies anything: no word may depend on it.
std::uint64_t word(const char* text, std::uint64_t above) { return std::strtoull(text, nullptr, 16) | above << 32; }

repdl::random::Position position(std::int64_t offset) {
  const std::int64_t values[] = {7, 3, offset}, size = 3, stride = 1;
  repdl::Tensor tensor;
  tensor.data = const_cast<std::int64_t*>(values);
  tensor.size = &size, tensor.stride = &stride, tensor.dims = 1;
  return repdl::random::Position(tensor);
}

// Whether the batches of `count` elements from `begin` on have each of them once, and their words fit.
bool are_right(const repdl::random::Position& at, std::int64_t begin, std::int64_t count) {
  constexpr std::uint32_t untouched = 0xA5A5A5A5u;
  bool right = true;
  std::int64_t next = begin;
  repdl::cpu::in_batches(at, begin, begin + count, [&](const repdl::cpu::Batch& batch) {
    const std::uint64_t number = at.offset + static_cast<std::uint64_t>(next);
    right = right && batch.element == next && batch.count > 0 && batch.block == number / 4 &&
            batch.skip == static_cast<std::int64_t>(number % 4) && batch.skip + batch.count <= 4 * batch.blocks;
    std::vector<std::uint32_t> words(repdl::cpu::words_at_once + 1024, untouched);
    repdl::cpu::fill_words(at, batch, 0, words.data());
    const auto end = words.begin() + repdl::cpu::words_at_once;
    right = right && std::all_of(end, words.end(), [=](std::uint32_t w) { return w == untouched; });
    next += batch.count;
  });
  return right && next == begin + count;
}

int check_batches() {
  int wrong = 0;
  for (std::int64_t offset = 0; offset < 5; ++offset)
    for (const std::int64_t begin : {0, 1, 6})
      for (const std::int64_t whole : {std::int64_t{0}, repdl::cpu::words_at_once, 2 * repdl::cpu::words_at_once})
        for (std::int64_t count = std::max<std::int64_t>(0, whole - 5); count <= whole + 5; ++count) {
          if (are_right(position(offset), begin, count)) continue;
          std::printf("wrong: offset %d, %d elements from %d on\n", static_cast<int>(offset), static_cast<int>(count),
                      static_cast<int>(begin));
          wrong = 1;
        }
  return wrong;
}

}  // namespace

int main(int count, char** given) {
  if (count == 1) return check_batches();
  const auto key = [&](int i) { return static_cast<std::uint32_t>(word(given[i], 0)); };
  repdl::random::Block<std::uint64_t> one{};
  repdl::random::Block<Lanes> many{};
  for (int i = 0; i < 4; ++i) {
    one.word[i] = word(given[1 + i], 0x12345u);
    many.word[i] = Lanes::set1(word(given[1 + i], 0xabcdefu));
  }
  one = repdl::random::philox(one, key(5), key(6));
  many = repdl::random::philox(many, key(5), key(6));
  for (const std::uint64_t w : one.word) std::printf("%08x ", static_cast<unsigned>(w));
  std::printf("\n");
  std::uint32_t words[4 * Lanes::width];
  store(many, words);
  for (int i = 0; i < 4 * Lanes::width; ++i) std::printf("%08x%s", words[i], i % 4 == 3 ? " \n" : " ");
}
