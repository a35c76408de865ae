// From words to numbers (distributions.md, dropout.md), one element or one block of four at a time.
//
// Constructors round options to the type of the arithmetic: they are called where the environment is IEEE's.
#pragma once

#include <cmath>

#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/cos.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/random/double_functions.hpp"
#include "repdl/random/position.hpp"

namespace repdl::random {

// ---- of one word

// In [0, 1): multiples of 2**-24, exactly.
REPDL_HD inline float half_open(std::uint32_t word) { return mul(static_cast<float>(word >> 8), 0x1p-24f); }
// The same of 64 bits: multiples of 2**-53.
REPDL_HD inline double half_open(std::uint64_t word) { return mul(static_cast<double>(word >> 11), 0x1p-53); }
// In (0, 1].
REPDL_HD inline float left_open(std::uint32_t word) { return fma(static_cast<float>(word), 0x1p-32f, 0x1p-33f); }
REPDL_HD inline double left_open(std::uint64_t x64) { return fma(static_cast<double>(x64), 0x1p-64, 0x1p-65); }
// In [-pi, pi]; 0x1.921fb6p-30f is pi * 2**-31.
REPDL_HD inline float angle(std::uint32_t word) {
  return mul(static_cast<float>(static_cast<std::int32_t>(word)), 0x1.921fb6p-30f);
}
// The length of a pair of normal numbers.
REPDL_HD inline float radius(std::uint32_t word) { return std::sqrt(mul(-2.0f, exact::log(left_open(word)))); }
// An exponential number whose logarithm is given; never 0.
REPDL_HD inline float minus_log(float v, float log) { return v == 1.0f ? 0x1p-25f : -log; }
REPDL_HD inline float standard_exponential(std::uint32_t word) {
  const float v = left_open(word);
  return minus_log(v, exact::log(v));
}
REPDL_HD inline double standard_exponential(std::uint64_t x64) {
  const double v = left_open(x64);
  return v == 1.0 ? 0x1p-54 : -log_double(v);
}
REPDL_HD inline double radius(std::uint64_t x64) { return std::sqrt(mul(-2.0, log_double(left_open(x64)))); }
// What a word is below with probability p, 0 for NaN.
REPDL_HD inline std::uint64_t threshold(double p) {
  return p >= 1.0 ? std::uint64_t{1} << 32 : p > 0.0 ? static_cast<std::uint64_t>(mul(p, 0x1p+32)) : 0;
}

// ---- functions of a word and of operands

struct Word {
  using Element = std::int32_t;
  REPDL_HD Element operator()(std::uint32_t word) const { return static_cast<Element>(word); }
};

template <class T>
struct Interval {  // u of [0, 1) becomes one of [low, high), `limit` the largest number below `high`
  T low, width, limit;

  REPDL_HD Interval(double from, double to, double most)
      : low(static_cast<T>(from)), width(static_cast<T>(to - from)), limit(static_cast<T>(most)) {}
  REPDL_HD T operator()(T u) const {
    const T x = fma(u, width, low);
    return x > limit ? limit : x;
  }
};

struct Uniform : Interval<float> {
  using Element = float;
  using Interval<float>::Interval;
  REPDL_HD float operator()(std::uint32_t word) const { return Interval<float>::operator()(half_open(word)); }
};

struct Exponential {
  using Element = float;
  float rate;

  REPDL_HD explicit Exponential(double lambd) : rate(static_cast<float>(lambd)) {}
  REPDL_HD float operator()(std::uint32_t word) const { return standard_exponential(word) / rate; }
};

template <class T>
struct Bernoulli {
  using Element = T;
  REPDL_HD T operator()(std::uint32_t word, T p) const {
    return word < threshold(static_cast<double>(p)) ? T(1) : T(0);
  }
};

template <class T>
struct BernoulliScalar {
  using Element = T;
  std::uint64_t below;

  REPDL_HD explicit BernoulliScalar(double p) : below(threshold(p)) {}
  REPDL_HD T operator()(std::uint32_t word) const { return word < below ? T(1) : T(0); }
};

template <class T>
struct Dropout {
  using Element = T;
  std::uint64_t below;
  T scale;

  REPDL_HD explicit Dropout(double p) : below(threshold(p)), scale(p == 1.0 ? T(0) : static_cast<T>(1.0 / (1.0 - p))) {}
  REPDL_HD T operator()(std::uint32_t word, T x) const { return canonical(mul(x, word < below ? T(0) : scale)); }
};

// ---- functions of 64 bits

struct WideUniform : Interval<double> {
  using Element = double;
  using Interval<double>::Interval;
  REPDL_HD double operator()(std::uint64_t x64) const { return Interval<double>::operator()(half_open(x64)); }
};

struct WideExponential {
  using Element = double;
  double rate;

  REPDL_HD explicit WideExponential(double lambd) : rate(lambd) {}
  REPDL_HD double operator()(std::uint64_t x64) const { return standard_exponential(x64) / rate; }
};

// ---- functions of a block: its four elements

template <class T>
struct Scaled {  // a standard normal number, by mean and standard deviation
  T mean, std;

  REPDL_HD Scaled(double m, double s) : mean(static_cast<T>(m)), std(static_cast<T>(s)) {}
  REPDL_HD T of(T z) const { return canonical(fma(z, std, mean)); }
};

struct Normal : Scaled<float> {
  using Element = float;
  using Scaled<float>::Scaled;
  REPDL_HD void operator()(const Position& at, std::uint64_t block, float* four) const {
    const Block<std::uint64_t> words = at.words(block, pairs_plane);
    for (int j = 0; j < 4; j += 2) {
      const float r = radius(static_cast<std::uint32_t>(words.word[j]));
      const float t = angle(static_cast<std::uint32_t>(words.word[j + 1]));
      four[j] = of(mul(r, exact::cos(t)));
      four[j + 1] = of(mul(r, exact::sin(t)));
    }
  }
};

struct WideNormal : Scaled<double> {
  using Element = double;
  using Scaled<double>::Scaled;
  REPDL_HD void operator()(const Position& at, std::uint64_t block, double* four) const {
    const Block<std::uint64_t> high = at.words(block, pairs_plane), low = at.words(block, pairs_plane + 1);
    for (int j = 0; j < 4; j += 2) {
      const double r = radius(wide(high.word[j], low.word[j]));
      const Direction d = direction(wide(high.word[j + 1], low.word[j + 1]));
      four[j] = of(mul(r, d.cosine));
      four[j + 1] = of(mul(r, d.sine));
    }
  }
};

// [low, low + size) by rejection of what would make some numbers more likely (Lemire, ACM TOMACS 29(1), 2019).
struct Integers {
  using Element = std::int64_t;
  std::uint64_t low, size, rejected;
  bool narrow;  // a word is enough

  REPDL_HD Integers(std::int64_t from, std::int64_t to)
      : low(static_cast<std::uint64_t>(from)), size(static_cast<std::uint64_t>(to) - low) {
    const std::uint64_t two_32 = std::uint64_t{1} << 32;
    narrow = size <= two_32;
    rejected = narrow ? (two_32 - size) % size : (0 - size) % size;
  }

  // The integer of a word or of 64 bits, and whether it is accepted.
  struct Attempt {
    std::int64_t value;
    bool accepted;
  };
  REPDL_HD Attempt operator()(std::uint32_t word) const {
    const std::uint64_t m = word * size;  // below 2**64 for size = 2**32 too
    return {static_cast<std::int64_t>(low + (m >> 32)), static_cast<std::uint32_t>(m) >= rejected};
  }
  REPDL_HD Attempt operator()(std::uint64_t x64) const {
    // the 128 bits of the product, in halves
    const std::uint64_t a = x64 >> 32, b = static_cast<std::uint32_t>(x64);
    const std::uint64_t c = size >> 32, d = static_cast<std::uint32_t>(size);
    const std::uint64_t middle = a * d + (b * d >> 32), other = b * c + static_cast<std::uint32_t>(middle);
    const std::uint64_t high = a * c + (middle >> 32) + (other >> 32);
    return {static_cast<std::int64_t>(low + high), x64 * size >= rejected};
  }

  // The attempts after the first one, of which the last is taken in any case.
  REPDL_HD std::int64_t again(const Position& at, std::uint64_t n) const {
    Attempt attempt{0, false};
    const int step = narrow ? 1 : 2;
    for (int plane = second_attempt; !attempt.accepted && plane <= spawn_plane - step; plane += step)
      attempt = narrow ? (*this)(at.word(n, plane)) : (*this)(wide(at.word(n, plane), at.word(n, plane + 1)));
    return attempt.value;
  }

  REPDL_HD void operator()(const Position& at, std::uint64_t block, std::int64_t* four) const {
    const Block<std::uint64_t> high = at.words(block, 0);
    Block<std::uint64_t> low_half{};
    if (!narrow) low_half = at.words(block, 1);
    for (int j = 0; j < 4; ++j) {
      const Attempt attempt =
          narrow ? (*this)(static_cast<std::uint32_t>(high.word[j])) : (*this)(wide(high.word[j], low_half.word[j]));
      four[j] = attempt.accepted ? attempt.value : again(at, 4 * block + static_cast<std::uint64_t>(j));
    }
  }
};

// The cosine of a direction, and whether an event of probability exp(-q / 2) happens: of a word, or of 64 bits.
REPDL_HD inline float cosine(std::uint32_t word) { return exact::cos(angle(word)); }
REPDL_HD inline double cosine(std::uint64_t x64) { return direction(x64).cosine; }
REPDL_HD inline bool happens(std::uint32_t word, float q) { return left_open(word) <= exact::exp(mul(-0.5f, q)); }
REPDL_HD inline bool happens(std::uint64_t x64, double q) { return standard_exponential(x64) >= mul(0.5, q); }

// A normal number between a and b, by the way of rejection that accepts often there.
template <class T>
class TruncatedNormal {
 public:
  using Element = T;

  REPDL_HD TruncatedNormal(double mean, double std, double a, double b)
      : mean_(static_cast<T>(mean)), std_(static_cast<T>(std)), a_(static_cast<T>(a)), b_(static_cast<T>(b)) {
    double low = (a - mean) / std, high = (b - mean) / std;
    mirrored_ = high - low < HUGE_VAL ? low + high < 0.0 : high < HUGE_VAL;
    if (mirrored_) {
      const double swapped = -low;
      low = -high;
      high = swapped;
    }
    way_ = low < 0.5 && high - low > 2.0 ? Way::normal : mul(low, high - low) <= 1.0 ? Way::uniform : Way::tail;
    low_ = static_cast<T>(low);
    high_ = static_cast<T>(high);
    width_ = static_cast<T>(high - low);
    top_ = low < 0.0 ? T(0) : low_;
    rate_ = static_cast<T>(mul(0.5, low + std::sqrt(mul(low, low) + 4.0)));
  }
  REPDL_HD void operator()(const Position& at, std::uint64_t block, T* four) const {
    for (int j = 0; j < 4; ++j) four[j] = one(at, 4 * block + static_cast<std::uint64_t>(j));
  }

 private:
  enum class Way { normal, uniform, tail };

  // An attempt has two words, or two of 64 bits.
  REPDL_HD T one(const Position& at, std::uint64_t n) const {
    constexpr int planes = sizeof(T) == 8 ? 4 : 2;
    T z = 0;
    for (int plane = second_attempt; plane + planes <= spawn_plane; plane += planes) {
      const std::uint32_t w = at.word(n, plane), x = at.word(n, plane + 1);
      bool accepted;
      if constexpr (planes == 2)
        accepted = accept(w, x, z);
      else
        accepted = accept(wide(w, x), wide(at.word(n, plane + 2), at.word(n, plane + 3)), z);
      if (accepted) break;
    }
    T x = fma(mirrored_ ? -z : z, std_, mean_);
    x = x < a_ ? a_ : x;
    return x > b_ ? b_ : x;
  }
  template <class Bits>
  REPDL_HD bool accept(Bits first, Bits second, T& z) const {
    if (way_ == Way::normal) {
      z = mul(radius(first), cosine(second));
      return z >= low_ && z <= high_;
    }
    if (way_ == Way::uniform) {
      z = fma(half_open(first), width_, low_);
      z = z > high_ ? high_ : z;
      return happens(second, mul(z - top_, z + top_));
    }
    z = low_ + standard_exponential(first) / rate_;
    const T d = z - rate_;
    return z <= high_ && happens(second, mul(d, d));
  }

  T mean_, std_, a_, b_, low_, high_, width_, top_, rate_;
  bool mirrored_;
  Way way_;
};

}  // namespace repdl::random
