// All pointwise functions: each header ends with the list of its own.
#pragma once

#include "repdl/pointwise/activation.hpp"
#include "repdl/pointwise/arithmetic.hpp"
#include "repdl/pointwise/exact.hpp"
#include "repdl/pointwise/logarithms.hpp"
#include "repdl/pointwise/loss.hpp"

namespace repdl::pointwise {

template <template <class> class... A, template <class> class... B>
List<A..., B...> operator+(List<A...>, List<B...>);

using Functions = decltype(Activations() + ArithmeticFunctions() + ExactFunctions() + Logarithms() + Losses());

}  // namespace repdl::pointwise
