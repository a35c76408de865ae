// The arithmetic of a Vec and of a Vec64 against that of the C library: test_simd.py.
//
// Of fma the operands are hard ones: sums next to the middle of two neighbouring numbers, and in it, at every size.
// Prints "FUNCTION CHECKED WRONG FIRST", FIRST the operands of the first wrong result.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "simd/simd.hpp"
#include "simd/simd_double.hpp"

namespace {

template <class T>
struct Operands {
  T a, b, c;
};

template <class T>
bool same(T x, T y) {
  return std::memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y);
}

// What is within a few bits of half a unit in the last place of c, times c's neighbours of each size and sign.
template <class T>
std::vector<Operands<T>> hard_triples(int digits, int least) {
  std::vector<Operands<T>> all;
  const auto one = T(1);
  const auto add = [&](int exponent, T x, T y, T c) {  // x * y * 2**exponent is added
    const int half = exponent / 2;
    for (const T sign : {one, -one}) all.push_back({std::ldexp(x, half), std::ldexp(sign * y, exponent - half), c});
  };
  for (int e = least; e < -2 * least && std::ldexp(one, e) <= std::numeric_limits<T>::max(); ++e) {
    const int unit = e - digits + 1 > least ? e - digits + 1 : least;
    const T next = std::ldexp(one, unit);
    for (const T c : {std::ldexp(one, e), std::ldexp(one, e) + next, -(2 * std::ldexp(one, e) - next)}) {
      for (int k = 1; k < digits; ++k) {
        const T more = one + std::ldexp(one, -k), less = one - std::ldexp(one, -k);
        add(unit - 1, more, one, c), add(unit - 1, less, one, c), add(unit - 1, more, less, c);
        add(unit - 1, more, more, c), add(unit - 1, less, less, c), add(unit, more, less, c);
        add(unit - 1 - k, more, less, c);
      }
      add(unit - 1, one, one, c), add(unit, one, one, c), add(unit - 2, one + one + one, one, c);
      add(e, one, std::ldexp(c, -e), -c), add(e, -one, std::ldexp(c, -e), c);
    }
  }
  return all;
}

// Random numbers of all sizes, with what cancels in their products, and special ones.
template <class T, class Bits>
std::vector<Operands<T>> any_triples() {
  std::vector<Operands<T>> all;
  std::mt19937_64 random(1);
  const T large = std::numeric_limits<T>::max(), small = std::numeric_limits<T>::denorm_min();
  const T special[] = {0, -T(0), 1, -1, large, -large, small, -small, T(INFINITY), -T(INFINITY), T(NAN)};
  for (int i = 0; i < 200000; ++i) {
    T x[3];
    for (T& to : x) {
      const Bits bits = static_cast<Bits>(random());
      std::memcpy(&to, &bits, sizeof bits);
      if (i % 5 == 0 && random() % 3 == 0) to = special[random() % 11];
    }
    if (i % 3 == 0) x[2] = -x[0] * x[1];
    all.push_back({x[0], x[1], x[2]});
  }
  return all;
}

// Of whole vectors; the last one is filled up with the first operands.
template <class V, class T, class Of, class Right>
void compare(const char* name, const std::vector<Operands<T>>& all, const Of& of, const Right& right) {
  unsigned long wrong = 0;
  Operands<T> first{};
  for (std::size_t i = 0; i < all.size(); i += V::width) {
    T a[V::width], b[V::width], c[V::width], y[V::width];
    for (int j = 0; j < V::width; ++j) {
      const Operands<T>& o = all[(i + j) % all.size()];
      a[j] = o.a, b[j] = o.b, c[j] = o.c;
    }
    of(V::load(a), V::load(b), V::load(c)).store(y);
    for (int j = 0; j < V::width; ++j)
      if (!same(y[j], right(a[j], b[j], c[j])) && wrong++ == 0) first = {a[j], b[j], c[j]};
  }
  std::printf("%s %zu %lu %a,%a,%a\n", name, all.size(), wrong, double(first.a), double(first.b), double(first.c));
}

template <class V, class T, class Bits>
void check(const char* suffix, int digits, int least) {
  auto all = hard_triples<T>(digits, least);
  for (const auto& o : any_triples<T, Bits>()) all.push_back(o);
  const auto named = [&](const char* name) { return std::string(name) + suffix; };
  const auto exact = [](T a, T b, T c) { return std::fma(a, b, c); };
  compare<V>(named("fma").c_str(), all, [](V a, V b, V c) { return fma(a, b, c); }, exact);
  compare<V>(named("add").c_str(), all, [](V, V b, V c) { return b + c; }, [](T, T b, T c) { return b + c; });
  compare<V>(named("mul").c_str(), all, [](V a, V b, V) { return a * b; }, [](T a, T b, T) { return a * b; });
}

}  // namespace

int main() {
  check<repdl::cpu::Vec, float, std::uint32_t>("", FLT_MANT_DIG, -149);
  check<repdl::cpu::Vec64, double, std::uint64_t>("_double", DBL_MANT_DIG, -1074);
}
