// Values that only a kernel can look at: the host waits for no device.
#pragma once

#include "base/launch.hpp"

namespace repdl::cuda {

// Ends the program's use of the device unless `right`, before anything else is read or written: the next call that
// waits for the device raises cudaErrorAssert, as for an assertion in torch's kernels, and `what` is on stderr.
__device__ inline void expect(bool right, const char* what) {
  if (!right) fail(what);
}

}  // namespace repdl::cuda
