// From words to numbers (distributions.md, dropout.md), one element or one block of four at a time.
//
// Constructors round options to the type of the arithmetic: they are called where the environment is IEEE's.
#pragma once

#include <cmath>

#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/cos.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/random/position.hpp"

namespace repdl::random {

// ---- of one word

// In [0, 1): multiples of 2**-24, exactly.
REPDL_HD inline float half_open(std::uint32_t word) { return mul(static_cast<float>(word >> 8), 0x1p-24f); }
// The same of 64 bits: multiples of 2**-53.
REPDL_HD inline double half_open(std::uint64_t word) { return mul(static_cast<double>(word >> 11), 0x1p-53); }
// In (0, 1].
REPDL_HD inline float left_open(std::uint32_t word) { return fma(static_cast<float>(word), 0x1p-32f, 0x1p-33f); }
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

// ---- functions of a block: its four elements

struct WideUniform : Interval<double> {
  using Element = double;
  using Interval<double>::Interval;
  REPDL_HD void operator()(const Position& at, std::uint64_t block, double* four) const {
    const Block<std::uint64_t> high = at.words(block, 0), low = at.words(block, 1);
    for (int j = 0; j < 4; ++j) four[j] = Interval<double>::operator()(half_open(wide(high.word[j], low.word[j])));
  }
};

struct Normal {
  using Element = float;
  float mean, std;

  REPDL_HD Normal(double m, double s) : mean(static_cast<float>(m)), std(static_cast<float>(s)) {}
  REPDL_HD float of(float z) const { return canonical(fma(z, std, mean)); }
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

// [low, low + size) by rejection of what would make some numbers more likely (Lemire, ACM TOMACS 29(1), 2019).
class Integers {
 public:
  using Element = std::int64_t;

  REPDL_HD Integers(std::int64_t low, std::int64_t high)
      : low_(static_cast<std::uint64_t>(low)), size_(static_cast<std::uint64_t>(high) - low_) {
    const std::uint64_t two_32 = std::uint64_t{1} << 32;
    narrow_ = size_ <= two_32;
    rejected_ = narrow_ ? (two_32 - size_) % size_ : (0 - size_) % size_;
  }
  REPDL_HD void operator()(const Position& at, std::uint64_t block, std::int64_t* four) const {
    const Block<std::uint64_t> first = at.words(block, 0);
    Block<std::uint64_t> second{};
    if (!narrow_) second = at.words(block, 1);
    for (int j = 0; j < 4; ++j) {
      std::uint64_t quotient;
      const std::uint64_t number = 4 * block + static_cast<std::uint64_t>(j);
      bool done = narrow_ ? accept(static_cast<std::uint32_t>(first.word[j]), quotient)
                          : accept_wide(wide(first.word[j], second.word[j]), quotient);
      const int step = narrow_ ? 1 : 2;
      for (int plane = second_attempt; !done && plane <= spawn_plane - step; plane += step)
        done = narrow_ ? accept(at.word(number, plane), quotient)
                       : accept_wide(wide(at.word(number, plane), at.word(number, plane + 1)), quotient);
      four[j] = static_cast<std::int64_t>(low_ + quotient);
    }
  }

 private:
  REPDL_HD bool accept(std::uint32_t word, std::uint64_t& quotient) const {
    // size = 2**32 is a product of at most 64 bits too
    const std::uint64_t m = word * size_;
    quotient = m >> 32;
    return static_cast<std::uint32_t>(m) >= rejected_;
  }
  REPDL_HD bool accept_wide(std::uint64_t word, std::uint64_t& quotient) const {
    // the 128 bits of word * size, in halves
    const std::uint64_t a = word >> 32, b = static_cast<std::uint32_t>(word);
    const std::uint64_t c = size_ >> 32, d = static_cast<std::uint32_t>(size_);
    const std::uint64_t middle = a * d + (b * d >> 32), other = b * c + static_cast<std::uint32_t>(middle);
    quotient = a * c + (middle >> 32) + (other >> 32);
    return word * size_ >= rejected_;
  }

  std::uint64_t low_, size_, rejected_;
  bool narrow_;
};

// The keys of a permutation.
struct Keys {
  using Element = std::uint64_t;
  REPDL_HD void operator()(const Position& at, std::uint64_t block, std::uint64_t* four) const {
    const Block<std::uint64_t> high = at.words(block, 0), low = at.words(block, 1);
    for (int j = 0; j < 4; ++j) four[j] = wide(high.word[j], low.word[j]);
  }
};

// A normal number between a and b, by the way of rejection that accepts often there.
class TruncatedNormal {
 public:
  using Element = float;

  REPDL_HD TruncatedNormal(double mean, double std, double a, double b)
      : mean_(static_cast<float>(mean)), std_(static_cast<float>(std)), a_(static_cast<float>(a)),
        b_(static_cast<float>(b)) {
    double low = (a - mean) / std, high = (b - mean) / std;
    mirrored_ = high - low < HUGE_VAL ? low + high < 0.0 : high < HUGE_VAL;
    if (mirrored_) {
      const double swapped = -low;
      low = -high;
      high = swapped;
    }
    way_ = low < 0.5 && high - low > 2.0 ? Way::normal : mul(low, high - low) <= 1.0 ? Way::uniform : Way::tail;
    low_ = static_cast<float>(low);
    high_ = static_cast<float>(high);
    width_ = static_cast<float>(high - low);
    top_ = static_cast<float>(low > 0.0 ? low : 0.0);
    rate_ = static_cast<float>((low + std::sqrt(mul(low, low) + 4.0)) / 2.0);
  }
  REPDL_HD void operator()(const Position& at, std::uint64_t block, float* four) const {
    for (int j = 0; j < 4; ++j) four[j] = one(at, 4 * block + static_cast<std::uint64_t>(j));
  }

 private:
  enum class Way { normal, uniform, tail };

  REPDL_HD float one(const Position& at, std::uint64_t number) const {
    float z = 0;
    for (int plane = second_attempt; plane < spawn_plane - 1; plane += 2)
      if (accept(at.word(number, plane), at.word(number, plane + 1), z)) break;
    float x = fma(mirrored_ ? -z : z, std_, mean_);
    x = x < a_ ? a_ : x;
    return x > b_ ? b_ : x;
  }
  REPDL_HD bool accept(std::uint32_t first, std::uint32_t second, float& z) const {
    if (way_ == Way::normal) {
      z = mul(radius(first), exact::cos(angle(second)));
      return z >= low_ && z <= high_;
    }
    if (way_ == Way::uniform) {
      z = fma(half_open(first), width_, low_);
      z = z > high_ ? high_ : z;
      return left_open(second) <= exact::exp(mul(-0.5f, mul(z - top_, z + top_)));
    }
    z = low_ + standard_exponential(first) / rate_;
    const float d = z - rate_;
    return z <= high_ && left_open(second) <= exact::exp(mul(-0.5f, mul(d, d)));
  }

  float mean_, std_, a_, b_, low_, high_, width_, top_, rate_;
  bool mirrored_;
  Way way_;
};

}  // namespace repdl::random
