// Loops over the elements of a row of doubles: Vec64s where exact functions have them, else one at a time.
//
//   row_loop_double(n, body)   body(i, part) for the elements from i on that `part` loads and stores
#pragma once

#include <cstdint>

#include "simd/mask_double.hpp"

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

}  // namespace repdl::cpu
