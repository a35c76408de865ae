// Exact functions with pairs of floats instead of doubles: templates over a vector of floats, `Vec` of a CPU
// or `Single` of a GPU (single.hpp), whose bits are those of the double functions.
//
// A result is computed as s + rest, a float and its correction, with an error below a margin. Where both ends
// of that interval round to the same float, that float is the exact result, rounded once; elsewhere the double
// function decides. tools/exact/prove.py proves both on all 2**32 arguments: an element is decided on its own.
//
// A vector V has, found by its namespace: + - * / and < ==, fma, select, where, smaller, larger, absolute,
// minus_absolute, not_less, not_tiny, scaled, scales, parts, has_parts, look_up and bits_of; static zero and set1.
#pragma once

#include <cstring>

#include "repdl/host_device.hpp"

namespace repdl::exact::pairs {

// How many entries of a table V looks up: 16 or 32.
template <class V>
struct Entries {
  static constexpr int value = 32;
};
template <class V>
constexpr int entries = Entries<V>::value;

// x + table_magic is the nearest multiple of 1 / entries, its low bits an index of tables.
template <class V>
constexpr float table_magic = 0x1.8p+23f / entries<V>;

template <class V>
constexpr int table_log = entries<V> == 32 ? 5 : 4;

// Of 32 entries those that are looked up: every other one where 16 are, or 16 others.
// Hidden, as tables of another version of the kit in the process are others.
template <class V>
class __attribute__((visibility("hidden"))) Table {
 public:
  REPDL_HD constexpr explicit Table(const float (&all)[32]) : entry_{} {
    for (int i = 0; i < entries<V>; ++i) entry_[i] = all[i * (32 / entries<V>)];
  }
  REPDL_HD constexpr Table(const float (&wide)[32], const float (&narrow)[16]) : entry_{} {
    for (int i = 0; i < entries<V>; ++i) entry_[i] = entries<V> == 32 ? wide[i] : narrow[i];
  }
  // The entries at the low bits of index.
  REPDL_HD_INLINE V operator[](V index) const { return look_up(entry_, index); }

 private:
  alignas(128) float entry_[entries<V>];  // a line of a GPU's cache
};

// The vector of these bits.
template <class V, class Bits>
REPDL_HD_INLINE V with_bits(Bits bits) {
  static_assert(sizeof(V) == sizeof bits);
  V x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// A value as a float and its correction.
template <class V>
struct DoubleFloat {
  V hi, lo;
};

template <class V>
struct Rounded {
  V value;
  decltype(V() < V()) decided;
};

// x rounded, decided where an interval of `margin` around it rounds to one float.
template <class V>
REPDL_HD_INLINE Rounded<V> rounded(DoubleFloat<V> x, V margin) {
  const V below = x.hi + (x.lo - margin), above = x.hi + (x.lo + margin);
  return {below, below == above};
}

// s + rest rounded, rest between `low` and `high`: decided where that is one float.
template <class V>
REPDL_HD_INLINE Rounded<V> between(V s, V low, V high) {
  const V below = s + low, above = s + high;
  return {below, below == above};
}

}  // namespace repdl::exact::pairs
