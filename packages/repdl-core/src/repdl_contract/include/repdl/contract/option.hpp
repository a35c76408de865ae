// An option that is fixed for a loop, so that the loop does not ask for it.
#pragma once

#include <type_traits>

namespace repdl {

// f(std::true_type or std::false_type)
template <class F>
void with_option(bool option, const F& f) {
  if (option)
    f(std::true_type{});
  else
    f(std::false_type{});
}

}  // namespace repdl
