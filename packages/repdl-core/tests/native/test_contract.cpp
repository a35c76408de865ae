// The contract's headers without Python: fused multiply-add, tree, exact functions.
#include <cstdio>
#include <cstring>
#include <vector>

#include "repdl/contract/arithmetic.hpp"
#include "repdl/contract/order.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"

namespace {

int failures = 0;

std::uint32_t bits(float x) {
  std::uint32_t result;
  std::memcpy(&result, &x, sizeof result);
  return result;
}

float from_bits(std::uint32_t x) {
  float result;
  std::memcpy(&result, &x, sizeof result);
  return result;
}

void expect(const char* what, float actual, std::uint32_t expected) {
  if (bits(actual) == expected) return;
  std::printf("%s: 0x%08x, expected 0x%08x\n", what, bits(actual), expected);
  ++failures;
}

// n parts split at the largest power of two below n: the tree as its definition says.
float by_definition(const std::vector<float>& parts, std::size_t first, std::size_t n) {
  if (n == 1) return parts[first];
  std::size_t half = 1;
  while (2 * half < n) half *= 2;
  return by_definition(parts, first, half) + by_definition(parts, first + half, n - half);
}

}  // namespace

int main() {
  // (1 + 2**-12)**2 - (1 + 2**-11) = 2**-24 with one rounding.
  expect("fma is fused", repdl::fma(0x1.001p+0f, 0x1.001p+0f, -0x1.002p+0f), bits(0x1p-24f));
  // The double sum is the midpoint 1 + 2**-24 and a little: rounding twice would give 1.
  expect("fma rounds once", repdl::fma(0x1p-30f, 0x1p-30f, 0x1.000002p+0f), bits(0x1.000002p+0f));
  expect("fma rounds up past a midpoint", repdl::fma(0x1.000002p-12f, 0x1p-12f, 1.0f), bits(0x1.000002p+0f));
  expect("fma underflows gradually", repdl::fma(0x1p-75f, 0x1p-74f, 0.0f), 0x00000001u);
  expect("fma keeps -0", repdl::fma(0x1p-80f, -0x1p-80f, -0.0f), 0x80000000u);
  expect("fma of doubles keeps -0", static_cast<float>(repdl::fma(0x1p-600, -0x1p-600, 0.0)), 0x80000000u);
  expect("fma of doubles adds zeros", static_cast<float>(repdl::fma(0.0, -1.0, 0.0)), 0u);
  expect("canonical NaN", repdl::canonical(from_bits(0xffc12345u)), 0x7fc00000u);

  for (std::size_t n = 1; n < 70; ++n) {
    std::vector<float> parts;
    repdl::Tree<float> tree, all_but_one;
    for (std::size_t i = 0; i < n; ++i) {
      parts.push_back(1.0f / static_cast<float>(i + 3));
      tree.push(parts.back());
      if (i + 1 < n) all_but_one.push(parts.back());
    }
    const std::uint32_t expected = bits(by_definition(parts, 0, n));
    expect("tree", tree.result(), expected);
    expect("tree, finished", all_but_one.finish(parts.back()), expected);
    expect("tree in place", repdl::tree_of(parts.data(), static_cast<std::int64_t>(n)), expected);
  }
  expect("empty tree", repdl::Tree<float>().result(), 0u);
  expect("empty tree in place", repdl::tree_of<float>(nullptr, 0), 0u);

  expect("exp(0)", repdl::exact::exp(0.0f), bits(1.0f));
  expect("exp(-104)", repdl::exact::exp(-104.0f), 0u);
  expect("exp(1)", repdl::exact::exp(1.0f), 0x402df854u);
  expect("log(1)", repdl::exact::log(1.0f), 0u);
  expect("log(0x3c413d3a)", repdl::exact::log(from_bits(0x3c413d3au)), 0xc08e158fu);
  expect("log(-1)", repdl::exact::log(-1.0f), 0x7fc00000u);

  std::printf("%d failures\n", failures);
  return failures != 0;
}
