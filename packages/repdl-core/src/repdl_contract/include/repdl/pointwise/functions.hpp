// The pointwise functions, and the list of them that every backend compiles.
#pragma once

#include "repdl/pointwise/activation.hpp"
#include "repdl/pointwise/arithmetic.hpp"
#include "repdl/pointwise/exact.hpp"

namespace repdl::pointwise {

using Functions =
    List<Abs, Add, Canonical, Cos, Div, Erf, Exp, Exp2, Expm1, Gelu, GeluBackward, Log, Log10, Log1p, Log2, Maximum,
         MaximumBackward, Minimum, Mul, Neg, PowTensor, Reciprocal, Relu, ReluBackward, Rsqrt, Sigmoid, Sign, Silu,
         SiluBackward, Sin, Sqrt, Square, Sub, Tanh>;

}  // namespace repdl::pointwise
