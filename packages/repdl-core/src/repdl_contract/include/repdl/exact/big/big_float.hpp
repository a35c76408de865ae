// Floating-point numbers with 32 N bits, for the arguments that double-doubles leave undecided.
//
// Integers only, so that host and device agree. Each operation truncates its result: its relative error is below
// 2**-(32 N - 2), that of a sum in units of the larger operand. Exponents neither overflow nor underflow.
#pragma once

#include <cmath>

#include "repdl/contract/bits.hpp"

namespace repdl::exact::big {

// (-1)**negative 2**exponent times the sum of limb[i] 2**(32 (i - N)), whose highest bit is set; or 0: all limbs are.
template <int N>
struct BigFloat {
  static constexpr int bits = 32 * N;

  std::uint32_t limb[N] = {};
  int exponent = 0;
  bool negative = false;

  BigFloat() = default;

  // A finite double, exactly.
  REPDL_HD explicit BigFloat(double x) {
    const std::uint64_t pattern = to_bits(x);
    const int biased = static_cast<int>(pattern >> 52 & 0x7ff);
    const std::uint64_t fraction = pattern & 0xfffffffffffffu;
    negative = pattern >> 63 != 0;
    set(biased == 0 ? fraction : fraction | std::uint64_t{1} << 52, biased == 0 ? -1074 : biased - 1075);
  }

  // m 2**e
  REPDL_HD static BigFloat of(std::uint64_t m, int e = 0) {
    BigFloat x;
    x.set(m, e);
    return x;
  }

  REPDL_HD bool zero() const { return limb[N - 1] == 0; }

  // |x| is in [2**(size - 1), 2**size); very small for 0.
  REPDL_HD int size() const { return zero() ? -(1 << 28) : exponent; }

  // Moves the highest bit to its place.
  REPDL_HD void normalize() {
    int top = N - 1;
    while (top >= 0 && limb[top] == 0) --top;
    if (top < 0) {
      exponent = 0;
      return;
    }
    int shift = 0;
    for (std::uint32_t word = limb[top]; word >> 31 == 0; word <<= 1) ++shift;
    const int words = N - 1 - top;
    for (int i = N - 1; i >= 0; --i) {
      const std::uint64_t here = i >= words ? limb[i - words] : 0;
      const std::uint64_t below = i > words ? limb[i - words - 1] : 0;
      limb[i] = static_cast<std::uint32_t>((here << 32 | below) << shift >> 32);
    }
    exponent -= 32 * words + shift;
  }

 private:
  REPDL_HD void set(std::uint64_t m, int e) {
    limb[N - 1] = static_cast<std::uint32_t>(m >> 32);
    limb[N - 2] = static_cast<std::uint32_t>(m);
    exponent = e + 64;
    normalize();
  }
};

template <int N>
REPDL_HD inline BigFloat<N> operator-(BigFloat<N> x) {
  x.negative = !x.negative;
  return x;
}

template <int N>
REPDL_HD inline BigFloat<N> absolute(BigFloat<N> x) {
  x.negative = false;
  return x;
}

// x 2**by
template <int N>
REPDL_HD inline BigFloat<N> scaled(BigFloat<N> x, int by) {
  if (!x.zero()) x.exponent += by;
  return x;
}

// -1, 0 or 1 as |a| is less than, equal to or more than |b|.
template <int N>
REPDL_HD inline int compare_sizes(const BigFloat<N>& a, const BigFloat<N>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (int i = N; i-- > 0;) {
    if (a.limb[i] != b.limb[i]) return a.limb[i] < b.limb[i] ? -1 : 1;
  }
  return 0;
}

template <int N>
REPDL_HD_APART BigFloat<N> operator+(const BigFloat<N>& x, const BigFloat<N>& y) {
  const bool swapped = compare_sizes(x, y) < 0;
  const BigFloat<N>&a = swapped ? y : x, &b = swapped ? x : y;
  const int shift = a.size() - b.size();
  if (b.zero() || shift >= BigFloat<N>::bits) return a;

  // One limb more below, so that a difference of neighbours loses nothing.
  const int words = shift / 32, bits = shift % 32;
  std::uint32_t sum[N + 1];
  std::uint64_t carry = a.negative == b.negative ? 0 : 1;
  const std::uint32_t inverted = a.negative == b.negative ? 0u : 0xffffffffu;
  for (int i = 0; i <= N; ++i) {  // limb i of the sum has the weight of limb i - 1 of a
    const int j = i - 1 + words;
    const std::uint64_t low = j >= 0 && j < N ? b.limb[j] : 0, high = j + 1 < N ? b.limb[j + 1] : 0;
    const std::uint32_t part = static_cast<std::uint32_t>((high << 32 | low) >> bits);
    carry += static_cast<std::uint64_t>(i == 0 ? 0u : a.limb[i - 1]) + (part ^ inverted);
    sum[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  BigFloat<N> result;
  result.negative = a.negative;
  result.exponent = a.exponent;
  if (inverted == 0 && carry != 0) {
    for (int i = 0; i < N; ++i) {
      result.limb[i] = sum[i + 1] >> 1 | (i + 2 <= N ? sum[i + 2] : 1u) << 31;
    }
    ++result.exponent;
    return result;
  }
  int top = N;
  while (top > 0 && sum[top] == 0) --top;
  if (sum[top] == 0) return BigFloat<N>();
  int left = 0;
  for (std::uint32_t word = sum[top]; word >> 31 == 0; word <<= 1) ++left;
  for (int i = 0; i < N; ++i) {
    const int j = top - (N - 1 - i);
    const std::uint64_t here = j >= 0 ? sum[j] : 0, below = j >= 1 ? sum[j - 1] : 0;
    result.limb[i] = static_cast<std::uint32_t>((here << 32 | below) << left >> 32);
  }
  result.exponent -= 32 * (N - top) + left;
  return result;
}

template <int N>
REPDL_HD inline BigFloat<N> operator-(const BigFloat<N>& x, const BigFloat<N>& y) {
  return x + -y;
}

template <int N>
REPDL_HD_APART BigFloat<N> operator*(const BigFloat<N>& a, const BigFloat<N>& b) {
  BigFloat<N> product;
  if (a.zero() || b.zero()) return product;
  std::uint32_t full[2 * N] = {};
  for (int i = 0; i < N; ++i) {
    if (a.limb[i] == 0) continue;
    std::uint64_t carry = 0;
    for (int j = 0; j < N; ++j) {
      carry += static_cast<std::uint64_t>(a.limb[i]) * b.limb[j] + full[i + j];
      full[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    full[i + N] = static_cast<std::uint32_t>(carry);
  }
  const int left = full[2 * N - 1] >> 31 == 0;  // the product is 1/4 at least
  for (int i = 0; i < N; ++i) {
    product.limb[i] = full[N + i] << left | (left != 0 ? full[N + i - 1] >> 31 : 0u);
  }
  product.exponent = a.exponent + b.exponent - left;
  product.negative = a.negative != b.negative;
  return product;
}

// x m, m not 0
template <int N>
REPDL_HD inline BigFloat<N> operator*(const BigFloat<N>& x, std::uint32_t m) {
  if (x.zero()) return x;
  std::uint32_t full[N + 1];
  std::uint64_t carry = 0;
  for (int i = 0; i < N; ++i) {
    carry += static_cast<std::uint64_t>(x.limb[i]) * m;
    full[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  full[N] = static_cast<std::uint32_t>(carry);
  int left = 0;  // limbs hold 2**31 at least, so that the highest bit is in one of the two highest words
  if (full[N] == 0) {
    left = 32;
  } else {
    for (std::uint32_t word = full[N]; word >> 31 == 0; word <<= 1) ++left;
  }
  BigFloat<N> product;
  for (int i = 0; i < N; ++i) {
    const std::uint64_t pair = static_cast<std::uint64_t>(full[i + 1]) << 32 | full[i];
    product.limb[i] = static_cast<std::uint32_t>(pair << left >> 32);
  }
  product.exponent = x.exponent + 32 - left;
  product.negative = x.negative;
  return product;
}

// x / d, d not 0
template <int N>
REPDL_HD inline BigFloat<N> operator/(const BigFloat<N>& x, std::uint32_t d) {
  if (x.zero()) return x;
  BigFloat<N> quotient;
  std::uint64_t rest = 0;
  std::uint32_t full[N + 1];
  for (int i = N; i >= 0; --i) {
    rest = rest << 32 | (i > 0 ? x.limb[i - 1] : 0u);
    full[i] = static_cast<std::uint32_t>(rest / d);
    rest %= d;
  }
  int left = 0;
  if (full[N] == 0) {
    left = 32;
    for (std::uint32_t word = full[N - 1]; word >> 31 == 0; word <<= 1) ++left;
  } else {
    for (std::uint32_t word = full[N]; word >> 31 == 0; word <<= 1) ++left;
  }
  const int words = left / 32, bits = left % 32;
  for (int i = 0; i < N; ++i) {
    const int j = i + 1 - words;
    const std::uint64_t here = j >= 0 ? full[j] : 0, below = j >= 1 ? full[j - 1] : 0;
    quotient.limb[i] = static_cast<std::uint32_t>((here << 32 | below) << bits >> 32);
  }
  quotient.exponent = x.exponent - left;
  quotient.negative = x.negative;
  return quotient;
}

// x as a double, truncated; its exponent must be one of a double.
template <int N>
REPDL_HD inline double about(const BigFloat<N>& x) {
  if (x.zero()) return 0.0;
  const std::uint64_t head = static_cast<std::uint64_t>(x.limb[N - 1]) << 32 | x.limb[N - 2];
  const double size =
      mul(static_cast<double>(head >> 11), from_bits(static_cast<std::uint64_t>(x.exponent + 1023 - 53) << 52));
  return x.negative ? -size : size;
}

// 1 / x by Newton's method from a double; x is not 0.
template <int N>
REPDL_HD_APART BigFloat<N> reciprocal(const BigFloat<N>& x) {
  BigFloat<N> unit = x;
  unit.exponent = 0;
  BigFloat<N> y(1.0 / about(unit));
  const BigFloat<N> one = BigFloat<N>::of(1);
  for (int bits = 50; bits < BigFloat<N>::bits; bits *= 2) y = y + y * (one - unit * y);
  return scaled(y, -x.exponent);
}

template <int N>
REPDL_HD inline BigFloat<N> operator/(const BigFloat<N>& a, const BigFloat<N>& b) {
  return a * reciprocal(b);
}

// 1 / sqrt(x) for x > 0, the same way.
template <int N>
REPDL_HD_APART BigFloat<N> reciprocal_root(const BigFloat<N>& x) {
  BigFloat<N> unit = x;
  const int half = x.exponent >= 0 ? x.exponent / 2 : -((1 - x.exponent) / 2);
  unit.exponent = x.exponent - 2 * half;  // x = 4**half unit
  BigFloat<N> y(1.0 / std::sqrt(about(unit)));
  const BigFloat<N> one = BigFloat<N>::of(1);
  for (int bits = 49; bits < BigFloat<N>::bits; bits = 2 * bits - 1) y = y + scaled(y * (one - unit * (y * y)), -1);
  return scaled(y, -half);
}

template <int N>
REPDL_HD inline BigFloat<N> root(const BigFloat<N>& x) {
  return x.zero() ? x : x * reciprocal_root(x);
}

// What lies between the number and its nearest double, for a number that was truncated.
enum class Rest {
  unknown,  // by the bits that there are
  more,     // the number is a bit more in size than its bits say
  less,     // a bit less
};

// x rounded once to double, ties to even; inf beyond the largest one.
template <int N>
REPDL_HD inline double rounded(const BigFloat<N>& x, Rest rest = Rest::unknown) {
  const std::uint64_t sign = std::uint64_t{x.negative} << 63;
  if (x.zero() || x.exponent < -1074) return from_bits(sign);
  if (x.exponent > 1024) return from_bits(sign | 0x7ff0000000000000u);
  const int keep = x.exponent >= -1021 ? 53 : x.exponent + 1074;  // bits of the double, 0 to 53
  const std::uint64_t head = static_cast<std::uint64_t>(x.limb[N - 1]) << 32 | x.limb[N - 2];
  std::uint32_t below = 0;
  for (int i = 0; i < N - 2; ++i) below |= x.limb[i];
  const std::uint64_t kept = keep == 0 ? 0 : head >> (64 - keep);
  const std::uint64_t cut = head << keep, half = std::uint64_t{1} << 63;
  const bool tie = cut == half && below == 0;
  const bool up = tie ? rest == Rest::more || (rest == Rest::unknown && (kept & 1) != 0) : cut >= half;
  const std::uint64_t whole = kept + up;
  // The leading bit of a normal double adds to its exponent.
  if (keep < 53) return from_bits(sign | whole);
  return from_bits(sign | ((static_cast<std::uint64_t>(x.exponent + 1021) << 52) + whole));
}

}  // namespace repdl::exact::big
