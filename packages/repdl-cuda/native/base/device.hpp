// What the machine has.
#pragma once

#include <string>

namespace repdl::cuda {

// Why no kernel can run here, or "".
std::string no_device();

}  // namespace repdl::cuda
