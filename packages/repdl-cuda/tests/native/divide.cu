// Division by numbers that are known before the launch, at every place where a quotient begins or a range ends.
#include <cstdio>
#include <vector>

#include "base/divide.hpp"
#include "base/strides.hpp"

using namespace repdl::cuda;

namespace {

constexpr std::int64_t largest32 = 0x7FFFFFFF, largest64 = 0x7FFFFFFFFFFFFFFF, largest_size = std::int64_t{1} << 62;

// Small ones, those around powers of two, those that divide a little more or less than the largest number.
std::vector<std::int64_t> numbers(std::int64_t largest) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < 200; ++i) all.insert(all.end(), {i, largest - i, largest / 2 + i, largest / (i + 1)});
  for (std::int64_t power = 1; power <= largest / 4; power *= 2)
    for (std::int64_t n : {power - 1, power, power + 1, power + power / 2, power + power / 3}) all.push_back(n);
  std::uint64_t random = 1;
  for (int i = 0; i < 300; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    all.push_back(static_cast<std::int64_t>(random >> 2) % largest >> i % 40);
  }
  return all;
}

std::int64_t quotient(const FastDivmod32& divide, std::int64_t n) { return divide.split(static_cast<int>(n)).quotient; }
std::int64_t quotient(const FastDivmod64& divide, std::int64_t n) { return divide.quotient(n); }

template <class Fast, class Size>
int wrong(std::int64_t largest) {
  const auto all = numbers(largest);
  for (const std::int64_t d : all) {
    if (d < 1 || d > largest_size) continue;
    const Fast divide(static_cast<Size>(d));
    for (const std::int64_t n : all)
      for (const std::int64_t near : {n, n / d * d, n / d * d - 1, largest / d * d, largest / d * d - 1}) {
        if (near < 0 || quotient(divide, near) == near / d) continue;
        std::printf("%lld / %lld gives %lld\n", static_cast<long long>(near), static_cast<long long>(d),
                    static_cast<long long>(quotient(divide, near)));
        return 1;
      }
  }
  return 0;
}

}  // namespace

int main() { return wrong<FastDivmod32, int>(largest32) + wrong<FastDivmod64, std::int64_t>(largest64); }
