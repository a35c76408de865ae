// Loops over the elements of a row of doubles: Vec64s where exact functions have them, else one at a time.
//
//   row_loop_double(n, body)   body(i, part) for the elements from i on that `part` loads and stores
//   row_loop_of<T>(n, body)    the same of elements of type T, float (row_loop.hpp) or double
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "simd/mask_double.hpp"
#include "simd/row_loop.hpp"

namespace repdl::cpu {

struct FullVector64 {
  static Vec64 set1(double x) { return Vec64::set1(x); }
  static Vec64 load(const double* p) { return Vec64::load(p); }
  static void store(double* p, Vec64 x) { x.store(p); }
};

// The first n elements of a Vec64; the others load as +0 and are not stored.
struct MaskedTail64 {
  int n;
  static Vec64 set1(double x) { return Vec64::set1(x); }
  Vec64 load(const double* p) const { return Vec64::load(p, n); }
  void store(double* p, Vec64 x) const { x.store(p, n); }
};

struct OneDouble {
  static double set1(double x) { return x; }
  static double load(const double* p) { return *p; }
  static void store(double* p, double x) { *p = x; }
};

template <class Body>
void row_loop_double(std::int64_t n, const Body& given) {
  const Body body = given;
  if constexpr (vectors_of_doubles) {
    std::int64_t i = 0;
    for (; i + Vec64::width <= n; i += Vec64::width) body(i, FullVector64{});
    if (i < n) body(i, MaskedTail64{static_cast<int>(n - i)});
  } else {
    for (std::int64_t i = 0; i < n; ++i) body(i, OneDouble{});
  }
}

// row_loop or row_loop_double, by the type.
template <class T, class Body>
void row_loop_of(std::int64_t n, const Body& body) {
  if constexpr (std::is_same_v<T, float>)
    row_loop(n, body);
  else
    row_loop_double(n, body);
}

// row_loop_double where `fast(i)` may leave a vector as it is: `apart` computes those of a block.
template <class Fast, class Apart, class One>
void row_loop_double(std::int64_t n, const Fast& given, const Apart& apart, const One& one) {
  const Fast fast = given;
  constexpr int block = 64;  // vectors
  std::int64_t i = 0, left[block];
  while (i + Vec64::width <= n) {
    const std::int64_t end = std::min(i + block * Vec64::width, n / Vec64::width * Vec64::width);
    int count = 0;
    for (; i < end; i += Vec64::width)
      if (__builtin_expect(!fast(i), 0)) left[count++] = i;
    if (count > 0) apart(left, count);
  }
  if (i < n) one(i, MaskedTail64{static_cast<int>(n - i)});
}

}  // namespace repdl::cpu
