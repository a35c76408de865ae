// The order of n keys (random.md): buckets by the leading bits of the key, then each bucket, in cache, by the rest
// of the first word; where that is equal, the second word decides. Which algorithm sorts, the result does not show.
//
//   for i < n:  (n), key[i] = 64 bits of number offset + i
//     out = the i in ascending order of (key[i], i)
#include <vector>

#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "base/tuned.hpp"
#include "random/words.hpp"

namespace repdl::cpu {
namespace {

using random::Position;

// An element on its way: the first word of its key above its index, which has 32 bits.
using Entry = std::uint64_t;

constexpr std::int64_t bucket_size = tuned(2048, 4);  // about; entries of one and room for their order lie in L1 or L2
constexpr int most_bucket_bits = 13;  // more buckets than a second-level TLB has entries cost more than they gain
constexpr std::int64_t few = tuned(192, 3);  // entries that std::sort puts in order sooner

int bucket_bits_for(std::int64_t n) {
  int bits = 0;
  while (bits < most_bucket_bits && n >> bits > bucket_size) ++bits;
  return bits;
}

// Entries in ascending order, by the digits of their words below `bits`, the lowest first.
void sort_bucket(Entry* entries, Entry* room, std::int64_t n, int bits) {
  if (n < few) return std::sort(entries, entries + n);
  REPDL_ROUTE("permutation: digits");
  const int passes = (bits + 10) / 11, digit = (bits + passes - 1) / passes;
  Entry *from = entries, *to = room;
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = 32 + pass * digit;
    const Entry mask = (Entry{1} << std::min(digit, bits - pass * digit)) - 1;
    std::int32_t place[1 << 11];
    std::fill(place, place + mask + 1, 0);
    for (std::int64_t i = 0; i < n; ++i) ++place[from[i] >> shift & mask];
    std::int32_t sum = 0;
    for (Entry d = 0; d <= mask; ++d) sum += std::exchange(place[d], sum);
    for (std::int64_t i = 0; i < n; ++i) to[place[from[i] >> shift & mask]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy(from, from + n, entries);
}

// Puts entries of one word into the order of their second words.
void break_ties(const Position& at, Entry* entries, std::int64_t n) {
  const auto word = [](Entry entry) { return entry >> 32; };
  const auto second = [&](Entry entry) { return at.word(at.offset + static_cast<std::uint32_t>(entry), 1); };
  for (std::int64_t i = 1; i < n; ++i) {
    if (word(entries[i]) != word(entries[i - 1])) continue;
    std::int64_t end = i + 1;
    REPDL_ROUTE("permutation: equal words");
    while (end < n && word(entries[end]) == word(entries[i])) ++end;
    std::stable_sort(entries + i - 1, entries + end, [&](Entry a, Entry b) { return second(a) < second(b); });
    i = end;
  }
}

void random_permutation(const Tensor&, const Tensor& position, const Tensor& output, const ExecContext& exec) {
  const Position at(position);
  const std::int64_t n = output.count();
  const int bits = bucket_bits_for(n), shift = 32 - bits;
  const std::size_t buckets = std::size_t{1} << bits;
  Entry* const entries = output.as<Entry>();  // where they end as indices

  // Each share of the elements, in ascending order, has its own place in every bucket.
  const std::int64_t share = std::max<std::int64_t>((n + exec.threads - 1) / exec.threads, tuned(1 << 16, 5));
  const std::int64_t shares = (n + share - 1) / share;
  if (shares > 1) REPDL_ROUTE("permutation: several shares");
  std::vector<std::int64_t> places(static_cast<std::size_t>(shares) * buckets);
  const auto each_word = [&](std::int64_t s, const auto& body) {
    alignas(64) std::uint32_t words[words_at_once];
    in_batches(at, s * share, std::min(n, (s + 1) * share), [&](const Batch& batch) {
      fill_words(at, batch, 0, words);
      for (std::int64_t j = 0; j < batch.count; ++j)
        body(static_cast<std::uint64_t>(words[batch.skip + j]), static_cast<std::uint64_t>(batch.element + j));
    });
  };
  const auto of_share = [&](std::int64_t s) { return places.data() + static_cast<std::size_t>(s) * buckets; };
  parallel_for(shares, 1, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      std::int64_t* const count = of_share(s);
      each_word(s, [=](std::uint64_t word, std::uint64_t) { ++count[word >> shift]; });
    }
  });
  std::vector<std::int64_t> first(buckets + 1);
  std::int64_t sum = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    first[b] = sum;
    for (std::int64_t s = 0; s < shares; ++s) sum += std::exchange(of_share(s)[b], sum);
  }
  first[buckets] = n;
  parallel_for(shares, 1, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    if (bits > 0) REPDL_ROUTE("permutation: several buckets");
    for (std::int64_t s = begin; s < end; ++s) {
      std::int64_t* const place = of_share(s);
      each_word(s, [=](std::uint64_t word, std::uint64_t i) { entries[place[word >> shift]++] = word << 32 | i; });
    }
  });

  const auto rows = static_cast<std::int64_t>(buckets);
  std::int64_t largest = 0;
  for (std::size_t b = 0; b < buckets; ++b) largest = std::max(largest, first[b + 1] - first[b]);
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / bucket_size), exec.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 const Scratch<Entry> room(largest);
                 for (std::int64_t b = begin; b < end; ++b) {
                   Entry* const bucket = entries + first[static_cast<std::size_t>(b)];
                   const std::int64_t size =
                       first[static_cast<std::size_t>(b) + 1] - first[static_cast<std::size_t>(b)];
                   sort_bucket(bucket, room.data(), size, shift);
                   break_ties(at, bucket, size);
                   for (std::int64_t i = 0; i < size; ++i) bucket[i] = static_cast<std::uint32_t>(bucket[i]);
                 }
               });
}

const AddKernel permutation_kernel = add_kernel<&random_permutation>("random_permutation", DType::float32);

}  // namespace
}  // namespace repdl::cpu
