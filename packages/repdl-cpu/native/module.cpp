#include "bind.hpp"

PYBIND11_MODULE(REPDL_MODULE, module) {
  using namespace repdl::cpu;
  bind_activation(module);
  bind_adam_step(module);
  bind_batch_norm(module);
  bind_conv2d(module);
  bind_cross_entropy(module);
  bind_elementwise(module);
  bind_group_norm(module);
  bind_layer_norm(module);
  bind_matmul(module);
  bind_max(module);
  bind_max_pool2d(module);
  bind_nll_loss(module);
  bind_pad(module);
  bind_pow(module);
  bind_rms_norm(module);
  bind_sgd_step(module);
  bind_softmax(module);
  bind_sum(module);
}
