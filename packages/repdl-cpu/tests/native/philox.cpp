// Philox of one block, and of a vector of blocks, against the known answers of Random123: test_draws.py.
//
//     philox C0 C1 C2 C3 K0 K1   prints the block of one, then that of each lane of a vector, in hexadecimal
#include <cstdio>
#include <cstdlib>

#include "random/words.hpp"

namespace {

using repdl::cpu::Lanes;

// Above a word lies anything: no word may depend on it.
std::uint64_t word(const char* text, std::uint64_t above) { return std::strtoull(text, nullptr, 16) | above << 32; }

}  // namespace

int main(int, char** given) {
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
