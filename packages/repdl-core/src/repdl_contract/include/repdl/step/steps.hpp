// All steps: a new one is a header, and a line here.
#pragma once

#include "repdl/step/adam_step.hpp"
#include "repdl/step/sgd_step.hpp"

namespace repdl::step {

template <class Loop>
AddKernel add_steps() {
  add_step<Loop, AdamStep>();
  return add_step<Loop, SgdStep>();
}

}  // namespace repdl::step
