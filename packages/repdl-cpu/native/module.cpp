#include "bind.hpp"

PYBIND11_MODULE(REPDL_MODULE, module) {
  repdl::cpu::bind_conv2d(module);
  repdl::cpu::bind_matmul(module);
}
