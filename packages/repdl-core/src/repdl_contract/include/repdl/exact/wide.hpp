// Numbers of 256 bits behind the point, for the rare arguments that need them: ln and exp.
//
// Everything is cut, not rounded. Integers only, so that host and device agree.
#pragma once

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// The non-negative sum of limb[i] 2**(32 (i - 8)).
struct Wide {
  static constexpr int size = 9;
  std::uint32_t limb[size] = {};

  REPDL_HD bool zero() const {
    std::uint32_t any = 0;
    for (int i = 0; i < size; ++i) any |= limb[i];
    return any == 0;
  }
};

REPDL_HD inline Wide operator+(const Wide& a, const Wide& b) {
  Wide sum;
  std::uint64_t carry = 0;
  for (int i = 0; i < Wide::size; ++i) {
    carry += static_cast<std::uint64_t>(a.limb[i]) + b.limb[i];
    sum.limb[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  return sum;
}

// a - b for a >= b
REPDL_HD inline Wide operator-(const Wide& a, const Wide& b) {
  Wide difference;
  std::uint64_t borrow = 0;
  for (int i = 0; i < Wide::size; ++i) {
    const std::uint64_t d = static_cast<std::uint64_t>(a.limb[i]) - b.limb[i] - borrow;
    difference.limb[i] = static_cast<std::uint32_t>(d);
    borrow = d >> 63;
  }
  return difference;
}

REPDL_HD inline Wide operator*(const Wide& a, std::uint32_t m) {
  Wide product;
  std::uint64_t carry = 0;
  for (int i = 0; i < Wide::size; ++i) {
    carry += static_cast<std::uint64_t>(a.limb[i]) * m;
    product.limb[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  return product;
}

// d and floor((2**64 - 1) / d), for 1 <= d < 2**26: what divides by d with products alone.
struct Divisor {
  std::uint32_t d;
  std::uint64_t inverse;

  REPDL_HD explicit Divisor(std::uint32_t of) : d(of), inverse(~std::uint64_t{0} / of) {}

  // floor(n / d) or one less, for n < 2**32 d: n / d less n / 2**64 (1 + 1 / d) at most, cut.
  REPDL_HD std::uint32_t about(std::uint64_t n) const {
#if defined(__CUDA_ARCH__)
    return static_cast<std::uint32_t>(__umul64hi(n, inverse));
#else
    return static_cast<std::uint32_t>(static_cast<unsigned __int128>(n) * inverse >> 64);
#endif
  }
};

REPDL_HD inline Wide operator/(const Wide& a, const Divisor& by) {
  Wide quotient;
  std::uint64_t rest = 0;
  for (int i = Wide::size; i-- > 0;) {
    rest = rest << 32 | a.limb[i];
    if (rest == 0) continue;  // the terms of a series begin with more and more zeros
    const std::uint32_t q = by.about(rest);
    rest -= static_cast<std::uint64_t>(q) * by.d;
    const bool less = rest >= by.d;
    quotient.limb[i] = q + less;
    if (less) rest -= by.d;
  }
  return quotient;
}
REPDL_HD inline Wide operator/(const Wide& a, std::uint32_t d) { return a / Divisor(d); }

REPDL_HD inline Wide operator*(const Wide& a, const Wide& b) {
  std::uint32_t full[2 * Wide::size] = {};
  for (int i = 0; i < Wide::size; ++i) {
    if (a.limb[i] == 0) continue;
    std::uint64_t carry = 0;
    for (int j = 0; j < Wide::size; ++j) {
      carry += static_cast<std::uint64_t>(a.limb[i]) * b.limb[j] + full[i + j];
      full[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    full[i + Wide::size] = static_cast<std::uint32_t>(carry);
  }
  Wide product;
  for (int i = 0; i < Wide::size; ++i) product.limb[i] = full[i + Wide::size - 1];
  return product;
}

// a 2**by
REPDL_HD inline Wide shifted(const Wide& a, int by) {
  Wide result;
  const int words = (by + 32 * 64) / 32 - 64, bits = by - 32 * words;  // bits is 0 to 31
  for (int i = 0; i < Wide::size; ++i) {
    const int j = i - words;
    const std::uint64_t here = j >= 0 && j < Wide::size ? a.limb[j] : 0;
    const std::uint64_t below = j >= 1 && j <= Wide::size ? a.limb[j - 1] : 0;
    result.limb[i] = static_cast<std::uint32_t>((here << 32 | below) << bits >> 32);
  }
  return result;
}

REPDL_HD inline Wide ln_2() {
  return {{0x8baafa2bu, 0x8a0d175bu, 0x7298b62du, 0x40f34326u, 0x03f2f6afu, 0xc9e3b398u, 0xd1cf79abu, 0xb17217f7u, 0u}};
}

// 2 atanh(a / b) = ln((b + a) / (b - a)) for a / b below 0.18: 5 bits a term.
REPDL_HD inline Wide ln_ratio(std::uint32_t a, std::uint32_t b) {
  const Divisor by(b);
  Wide one;
  one.limb[Wide::size - 1] = 1;
  Wide term = one * a / by, sum = term;
  for (std::uint32_t k = 3; !term.zero(); k += 2) {
    term = term * a / by * a / by;
    sum = sum + term / k;
  }
  return sum * 2;
}

// exp(r) for r below 1, by its series.
REPDL_HD inline Wide exp(const Wide& r) {
  Wide term;
  term.limb[Wide::size - 1] = 1;
  Wide sum = term;
  for (std::uint32_t i = 1; !term.zero(); ++i) {
    term = term * r / i;
    sum = sum + term;
  }
  return sum;
}

}  // namespace repdl::exact
