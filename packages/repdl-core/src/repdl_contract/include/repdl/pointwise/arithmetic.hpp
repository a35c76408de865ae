// Sums, products and comparisons of elements (elementwise.md).
#pragma once

#include <cstdint>
#include <type_traits>

#include "repdl/contract/cast.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::pointwise {

template <class T>
struct Abs : Arithmetic {
  static constexpr auto op = "abs";
  REPDL_HD T operator()(T x) const { return std::fabs(x); }
};

template <class T>
struct Add : Arithmetic {
  static constexpr auto op = "add";
  REPDL_HD T operator()(T a, T b) const { return a + b; }
};

// input + alpha * other, rounded once.
template <class T>
struct AddAlpha : Arithmetic {
  static constexpr auto op = "add_alpha";
  using Options = std::tuple<double>;
  T alpha;

  REPDL_HD explicit AddAlpha(double alpha) : alpha(constant<T>(alpha)) {}
  REPDL_HD T operator()(T input, T other) const { return fma(alpha, other, input); }
};

template <class T>
struct Addcdiv : Arithmetic {
  static constexpr auto op = "addcdiv";
  using Options = std::tuple<double>;
  T value;

  REPDL_HD explicit Addcdiv(double value) : value(constant<T>(value)) {}
  REPDL_HD T operator()(T input, T a, T b) const { return input + mul(value, a / b); }
};

template <class T>
struct Addcmul : Arithmetic {
  static constexpr auto op = "addcmul";
  using Options = std::tuple<double>;
  T value;

  REPDL_HD explicit Addcmul(double value) : value(constant<T>(value)) {}
  REPDL_HD T operator()(T input, T a, T b) const { return input + mul(value, mul(a, b)); }
};

template <class T>
struct Clamp : Arithmetic {
  static constexpr auto op = "clamp";
  using Options = std::tuple<double, double>;
  T min, max;

  REPDL_HD Clamp(double min, double max) : min(constant<T>(min)), max(constant<T>(max)) {}
  REPDL_HD T operator()(T x) const {
    const T above = x < min || min != min ? min : x;
    return above > max || max != max ? max : above;
  }
};

template <class T>
struct ClampBackward : Arithmetic {
  static constexpr auto op = "clamp_backward";
  using Options = std::tuple<double, double>;
  T min, max;

  REPDL_HD ClampBackward(double min, double max) : min(constant<T>(min)), max(constant<T>(max)) {}
  REPDL_HD T operator()(T grad, T x) const { return x >= min && x <= max ? grad : T(0); }
};

template <class T>
struct Div : Arithmetic {
  static constexpr auto op = "div";
  REPDL_HD T operator()(T a, T b) const { return a / b; }
};

// The quotient rounded down to an integer, whatever rounding made of it.
template <class T>
struct DivFloor : Arithmetic {
  static constexpr auto op = "div_floor";
  REPDL_HD T operator()(T a, T b) const {
    if (a - a != T(0) && b != T(0)) return a - a;  // infinite by what is not 0: NaN
    const T quotient = a / b, whole = std::floor(quotient);
    if (quotient != whole) return whole;
    // Rounded to an integer, perhaps up: then the rest, whose sign is exact, is not that of b.
    const T rest = whole == T(0) ? a : fma(-whole, b, a);
    return (b > T(0) && rest < T(0)) || (b < T(0) && rest > T(0)) ? whole - T(1) : whole;
  }
};

template <class T>
struct DivTrunc : Arithmetic {
  static constexpr auto op = "div_trunc";
  REPDL_HD T operator()(T a, T b) const { return std::trunc(a / b); }
};

// start + weight * (end - start).
template <class T>
struct Lerp : Arithmetic {
  static constexpr auto op = "lerp";
  using Options = std::tuple<double>;
  T weight, rest;

  REPDL_HD explicit Lerp(double weight) : weight(constant<T>(weight)), rest(constant<T>(1.0 - weight)) {}
  REPDL_HD T operator()(T start, T end) const { return fma(end, weight, mul(start, rest)); }
};

template <class T>
struct LerpTensor : Arithmetic {
  static constexpr auto op = "lerp_tensor";
  REPDL_HD T operator()(T start, T end, T weight) const { return fma(end, weight, mul(start, T(1) - weight)); }
};

template <class T>
struct Maximum : Arithmetic {
  static constexpr auto op = "maximum";
  REPDL_HD T operator()(T a, T b) const { return a < b || b != b ? b : a; }
};

template <class T>
struct MaximumBackward : Arithmetic {
  static constexpr auto op = "maximum_backward";
  REPDL_HD T operator()(T grad, T a, T b) const { return a < b ? T(0) : a == b ? mul(grad, T(0.5)) : grad; }
};

template <class T>
struct Minimum : Arithmetic {
  static constexpr auto op = "minimum";
  REPDL_HD T operator()(T a, T b) const { return a > b || b != b ? b : a; }
};

template <class T>
struct Mul : Arithmetic {
  static constexpr auto op = "mul";
  REPDL_HD T operator()(T a, T b) const { return mul(a, b); }
};

template <class T>
struct Neg : Arithmetic {
  static constexpr auto op = "neg";
  REPDL_HD T operator()(T x) const { return -x; }
};

template <class T>
struct Reciprocal : Arithmetic {
  static constexpr auto op = "reciprocal";
  REPDL_HD T operator()(T x) const { return T(1) / x; }
};

template <class T>
struct Relu : Arithmetic {
  static constexpr auto op = "relu";
  REPDL_HD T operator()(T x) const { return x < T(0) ? T(0) : x; }
};

template <class T>
struct ReluBackward : Arithmetic {
  static constexpr auto op = "relu_backward";
  REPDL_HD T operator()(T grad, T y) const { return y <= T(0) ? T(0) : grad; }
};

// The square root of norms and deviations, whose derivative at 0 is 0.
template <class T>
struct Root : Arithmetic {
  static constexpr auto op = "root";
  REPDL_HD T operator()(T x) const { return std::sqrt(x) + T(0); }
};

template <class T>
struct RootBackward : Arithmetic {
  static constexpr auto op = "root_backward";
  REPDL_HD T operator()(T grad, T y) const { return y == T(0) ? T(0) : grad / (y + y); }
};

template <class T>
struct SigmoidBackward : Arithmetic {
  static constexpr auto op = "sigmoid_backward";
  REPDL_HD T operator()(T grad, T y) const { return mul(grad, mul(T(1) - y, y)); }
};

template <class T>
struct Sign : Arithmetic {
  static constexpr auto op = "sign";
  REPDL_HD T operator()(T x) const { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
};

template <class T>
struct Sqrt : Arithmetic {
  static constexpr auto op = "sqrt";
  REPDL_HD T operator()(T x) const { return std::sqrt(x); }
};

template <class T>
struct Square : Arithmetic {
  static constexpr auto op = "square";
  REPDL_HD T operator()(T x) const { return mul(x, x); }
};

template <class T>
struct Sub : Arithmetic {
  static constexpr auto op = "sub";
  REPDL_HD T operator()(T a, T b) const { return a - b; }
};

// By bits: compilers make a branch of `condition ? input : other`, which a processor guesses wrong half of the time.
// A bool of torch may be any byte, as of a view of integers: every one but 0 is true.
template <class T>
struct Where : Arithmetic {
  static constexpr auto op = "where";
  using Bits = std::conditional_t<sizeof(T) == sizeof(float), std::uint32_t, std::uint64_t>;

  REPDL_HD T operator()(std::uint8_t condition, T input, T other) const {
    const Bits chosen = Bits(0) - Bits(condition != 0);
    return bit_cast<T>((bit_cast<Bits>(input) & chosen) | (bit_cast<Bits>(other) & ~chosen));
  }
};

// What is left of |x| after whole multiples of 2^96 |y|, then of 2^48 |y|, then of |y|: exact, with the sign of x.
template <class T>
struct Fmod : Arithmetic {
  static constexpr auto op = "fmod";

  REPDL_HD static double left_of(double x, double step) {
    const double whole = std::floor(x / step);  // one too many if the quotient was rounded up to it
    const double times = fma(-whole, step, x) < 0.0 ? whole - 1.0 : whole, left = fma(-times, step, x);
    return times == 0.0 ? x : times > 0x1p53 ? static_cast<double>(NAN) : left;
  }
  REPDL_HD T operator()(T x, T y) const {
    const double size = std::fabs(static_cast<double>(y));
    double left = std::fabs(static_cast<double>(x));
    left = left_of(left, mul(size, 0x1p96));
    left = left_of(left, mul(size, 0x1p48));
    left = left_of(left, size);
    return static_cast<T>(std::copysign(left, static_cast<double>(x)));
  }
};

template <class T>
struct Remainder : Arithmetic {
  static constexpr auto op = "remainder";
  REPDL_HD T operator()(T x, T y) const {
    const T left = Fmod<T>()(x, y), added = left + y;
    const bool behind = ((left < T(0)) & (y > T(0))) | ((left > T(0)) & (y < T(0)));
    return behind ? added : left;
  }
};

template <class T>
struct Hypot : Arithmetic {
  static constexpr auto op = "hypot";
  REPDL_HD T operator()(T x, T y) const {
    const T largest = std::fabs(x) < std::fabs(y) ? std::fabs(y) : std::fabs(x);  // of a NaN any: the result is one
    const T scale = ((largest != T(0)) & (largest - largest == T(0))) ? largest : T(1);
    const T a = x / scale, b = y / scale;
    return mul(std::sqrt(mul(a, a) + mul(b, b)), scale);
  }
};

template <class T>
struct TanhBackward : Arithmetic {
  static constexpr auto op = "tanh_backward";
  REPDL_HD T operator()(T grad, T y) const { return mul(grad, T(1) - mul(y, y)); }
};

using ArithmeticFunctions =
    List<Abs, Add, AddAlpha, Addcdiv, Addcmul, Clamp, ClampBackward, Div, DivFloor, DivTrunc, Fmod, Hypot, Lerp,
         LerpTensor, Maximum, MaximumBackward, Minimum, Mul, Neg, Reciprocal, Relu, ReluBackward, Remainder, Root,
         RootBackward, SigmoidBackward, Sign, Sqrt, Square, Sub, TanhBackward, Where>;

}  // namespace repdl::pointwise
