// All steps. A new one is a line of the list at the end of a header.
#pragma once

#include "repdl/step/adaptive.hpp"
#include "repdl/step/asgd_step.hpp"
#include "repdl/step/moments.hpp"
#include "repdl/step/rprop_step.hpp"
#include "repdl/step/sgd_step.hpp"
#include "repdl/step/sums_of_squares.hpp"

namespace repdl::step {

template <class Loop>
AddKernel add_steps() {
  add_steps<Loop>(AdaptiveSteps());
  add_steps<Loop>(MomentSteps());
  add_steps<Loop>(SumOfSquaresSteps());
  return add_steps<Loop>(Steps<AsgdStep, RpropStep, SgdStep>());
}

}  // namespace repdl::step
