// The correctly rounded functions (elementwise.md, pow.md) as pointwise functions.
#pragma once

#include "repdl/exact/acos.hpp"
#include "repdl/exact/acosh.hpp"
#include "repdl/exact/asin.hpp"
#include "repdl/exact/asinh.hpp"
#include "repdl/exact/atan.hpp"
#include "repdl/exact/atan2.hpp"
#include "repdl/exact/atanh.hpp"
#include "repdl/exact/cos.hpp"
#include "repdl/exact/cosh.hpp"
#include "repdl/exact/doubles.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/erfc.hpp"
#include "repdl/exact/erfinv.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/exp2.hpp"
#include "repdl/exact/expm1.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/log10.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/log2.hpp"
#include "repdl/exact/pow.hpp"
#include "repdl/exact/rsqrt.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/sin.hpp"
#include "repdl/exact/sinh.hpp"
#include "repdl/exact/tan.hpp"
#include "repdl/exact/tanh.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::pointwise {

template <class T>
struct Cos : Exact {
  static constexpr auto op = "cos";
  REPDL_HD T operator()(T x) const {
    using exact::cos;
    return cos(x);
  }
};

template <class T>
struct Erf : Exact {
  static constexpr auto op = "erf";
  REPDL_HD T operator()(T x) const {
    using exact::erf;
    return erf(x);
  }
};

template <class T>
struct Exp : Exact {
  static constexpr auto op = "exp";
  REPDL_HD T operator()(T x) const {
    using exact::exp;
    return exp(x);
  }
};

template <class T>
struct Exp2 : Exact {
  static constexpr auto op = "exp2";
  REPDL_HD T operator()(T x) const {
    using exact::exp2;
    return exp2(x);
  }
};

template <class T>
struct Expm1 : Exact {
  static constexpr auto op = "expm1";
  REPDL_HD T operator()(T x) const {
    using exact::expm1;
    return expm1(x);
  }
};

template <class T>
struct Log : Exact {
  static constexpr auto op = "log";
  REPDL_HD T operator()(T x) const {
    using exact::log;
    return log(x);
  }
};

template <class T>
struct Log10 : Exact {
  static constexpr auto op = "log10";
  REPDL_HD T operator()(T x) const {
    using exact::log10;
    return log10(x);
  }
};

template <class T>
struct Log1p : Exact {
  static constexpr auto op = "log1p";
  REPDL_HD T operator()(T x) const {
    using exact::log1p;
    return log1p(x);
  }
};

template <class T>
struct Log2 : Exact {
  static constexpr auto op = "log2";
  REPDL_HD T operator()(T x) const {
    using exact::log2;
    return log2(x);
  }
};

template <class T>
struct Rsqrt : Exact {
  static constexpr auto op = "rsqrt";
  REPDL_HD T operator()(T x) const {
    using exact::rsqrt;
    return rsqrt(x);
  }
};

template <class T>
struct Sigmoid : Exact {
  static constexpr auto op = "sigmoid";
  REPDL_HD T operator()(T x) const {
    using exact::sigmoid;
    return sigmoid(x);
  }
};

template <class T>
struct Sin : Exact {
  static constexpr auto op = "sin";
  REPDL_HD T operator()(T x) const {
    using exact::sin;
    return sin(x);
  }
};

template <class T>
struct Tan : Scalars {
  static constexpr auto op = "tan";
  using Paths = std::conditional_t<std::is_same_v<T, float>, exact::Tan, void>;
  REPDL_HD T operator()(T x) const {
    using exact::tan;
    return tan(x);
  }
};

template <class T>
struct Tanh : Exact {
  static constexpr auto op = "tanh";
  REPDL_HD T operator()(T x) const {
    using exact::tanh;
    return tanh(x);
  }
};

template <class T>
struct PowTensor : Scalars {
  static constexpr auto op = "pow_tensor";
  using Paths = std::conditional_t<std::is_same_v<T, float>, exact::Powers, void>;
  REPDL_HD T operator()(T base, T exponent) const {
    using exact::pow;
    return pow(base, exponent);
  }
};

template <class T>
struct Acos : Scalars {
  static constexpr auto op = "acos";
  REPDL_HD T operator()(T x) const {
    using exact::acos;
    return acos(x);
  }
};

template <class T>
struct Acosh : Scalars {
  static constexpr auto op = "acosh";
  REPDL_HD T operator()(T x) const {
    using exact::acosh;
    return acosh(x);
  }
};

template <class T>
struct Asin : Scalars {
  static constexpr auto op = "asin";
  REPDL_HD T operator()(T x) const {
    using exact::asin;
    return asin(x);
  }
};

template <class T>
struct Asinh : Scalars {
  static constexpr auto op = "asinh";
  REPDL_HD T operator()(T x) const {
    using exact::asinh;
    return asinh(x);
  }
};

template <class T>
struct Atan : Scalars {
  static constexpr auto op = "atan";
  REPDL_HD T operator()(T x) const {
    using exact::atan;
    return atan(x);
  }
};

template <class T>
struct Atanh : Scalars {
  static constexpr auto op = "atanh";
  REPDL_HD T operator()(T x) const {
    using exact::atanh;
    return atanh(x);
  }
};

template <class T>
struct Cosh : Scalars {
  static constexpr auto op = "cosh";
  REPDL_HD T operator()(T x) const {
    using exact::cosh;
    return cosh(x);
  }
};

template <class T>
struct Erfc : Scalars {
  static constexpr auto op = "erfc";
  REPDL_HD T operator()(T x) const {
    using exact::erfc;
    return erfc(x);
  }
};

template <class T>
struct Erfinv : Scalars {
  static constexpr auto op = "erfinv";
  REPDL_HD T operator()(T x) const {
    using exact::erfinv;
    return erfinv(x);
  }
};

template <class T>
struct Sinh : Scalars {
  static constexpr auto op = "sinh";
  REPDL_HD T operator()(T x) const {
    using exact::sinh;
    return sinh(x);
  }
};

template <class T>
struct Atan2 : Scalars {
  static constexpr auto op = "atan2";
  using Paths = std::conditional_t<std::is_same_v<T, float>, exact::Atan2, void>;
  REPDL_HD T operator()(T y, T x) const {
    using exact::atan2;
    return atan2(y, x);
  }
};

using ExactFunctions = List<Acos, Acosh, Asin, Asinh, Atan, Atan2, Atanh, Cos, Cosh, Erf, Erfc, Erfinv, Exp, Exp2,
                            Expm1, Log, Log10, Log1p, Log2, PowTensor, Rsqrt, Sigmoid, Sin, Sinh, Tan, Tanh>;

}  // namespace repdl::pointwise
