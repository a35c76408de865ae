// What kernels are given, made on the host with the arithmetic of the contract.
#pragma once

#include "repdl/ieee_scope.hpp"

namespace repdl::cuda {

// T(arguments...), rounded to nearest and not flushed, whatever the caller has set: the constants of a kernel, which
// would be computed by each of its threads. Compilers may move arithmetic that they see across these switches, but not
// this call.
template <class T, class... Arguments>
T rounded_on_host(const Arguments&... arguments) {
  T (*volatile make)(const Arguments&...) = [](const Arguments&... given) { return T(given...); };
  const IeeeScope ieee;
  return make(arguments...);
}

}  // namespace repdl::cuda
