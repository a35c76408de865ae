// All steps. A new one is a line of the list at the end of a header.
#pragma once

#include "repdl/step/adaptive.hpp"
#include "repdl/step/sgd_step.hpp"

namespace repdl::step {

template <class Loop>
AddKernel add_steps() {
  add_steps<Loop>(AdaptiveSteps());
  return add_steps<Loop>(Steps<SgdStep>());
}

}  // namespace repdl::step
