// Python's view of ops.hpp: the functions of float in the module, those of double in `f64`.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/device.hpp"
#include "base/ops.hpp"
#include "repdl/python.hpp"

namespace {

namespace py = pybind11;

// Without the interpreter's lock: the emulated build computes for a while.
template <class Function>
void def(py::module_& module, const char* name, Function function) {
  module.def(name, function, py::call_guard<py::gil_scoped_release>());
}

template <class T>
void bind(py::module_& module) {
  using namespace repdl::cuda;
  def(module, "adam_step", adam_step<T>);
  def(module, "batch_norm", batch_norm<T>);
  def(module, "batch_norm_backward", batch_norm_backward<T>);
  def(module, "conv2d", conv2d<T>);
  def(module, "conv2d_grad_input", conv2d_grad_input<T>);
  def(module, "conv2d_grad_input_work", conv2d_grad_input_work<T>);
  def(module, "conv2d_grad_weight", conv2d_grad_weight<T>);
  def(module, "conv2d_grad_weight_work", conv2d_grad_weight_work<T>);
  def(module, "conv2d_work", conv2d_work<T>);
  def(module, "matmul", matmul<T>);
  def(module, "matmul_work", matmul_work<T>);
  def(module, "max_backward", max_backward<T>);
  def(module, "max_dim", max_dim<T>);
  def(module, "nll_loss", nll_loss<T>);
  def(module, "nll_loss_backward", nll_loss_backward<T>);
  def(module, "norm_rows", norm_rows<T>);
  def(module, "norm_rows_backward", norm_rows_backward<T>);
  def(module, "sgd_step", sgd_step<T>);
  def(module, "sum", sum<T>);
}

}  // namespace

PYBIND11_MODULE(REPDL_MODULE, module) {
  using namespace repdl::cuda;
  py::module_ f64 = module.def_submodule("f64");
  bind<float>(module);
  bind<double>(f64);
  def(module, "cross_entropy", cross_entropy);
  def(module, "cross_entropy_backward", cross_entropy_backward);
  def(module, "log_softmax", log_softmax);
  def(module, "log_softmax_backward", log_softmax_backward);
  def(module, "softmax", softmax);
  def(module, "softmax_backward", softmax_backward);
  def(module, "no_device", no_device);
  repdl::python::add_table(module.ptr());
  for (py::module_ both : {module, f64}) {
    def(both, "max_work", max_work);
    def(both, "sum_work", sum_work);
  }
}
