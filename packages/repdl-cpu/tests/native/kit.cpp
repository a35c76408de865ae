// Kernels of one loop each and the call cache, to run both under a sanitizer.
#include <stdexcept>

#include "repdl/pointwise/pass.hpp"
#include "repdl/python.hpp"
#include "repdl/python/call_module.hpp"

namespace {

using namespace repdl;

// Element by element, in the memory order of the output.
template <int N, class Function>
void walk(const char* op, const std::array<const Tensor*, N>& operands, const Tensor& output,
          const Function& function) {
  const pointwise::Pass<N> pass(op, output, operands);
  for (std::int64_t i = 0; i < pass.count; ++i) {
    std::int64_t at[N] = {}, rest = i;
    for (int d = pass.dims - 1; d >= 0; --d) {
      for (int k = 0; k < N; ++k) at[k] += rest % pass.size[d] * pass.stride[k][d];
      rest /= pass.size[d];
    }
    output.as<float>()[i] = function(at);
  }
}

void neg(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  walk<1>(exec.op, {&input}, output, [&](const std::int64_t* at) { return -input.as<float>()[at[0]]; });
}

void add(const Tensor& input, const Tensor& other, const Tensor& output, const ExecContext& exec) {
  walk<2>(exec.op, {&input, &other}, output,
          [&](const std::int64_t* at) { return input.as<float>()[at[0]] + other.as<float>()[at[1]]; });
}

void mul(const Tensor& input, const Tensor& other, const Tensor& output, const ExecContext& exec) {
  walk<2>(exec.op, {&input, &other}, output,
          [&](const std::int64_t* at) { return input.as<float>()[at[0]] * other.as<float>()[at[1]]; });
}

// By way of memory that it asks for.
void amax(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  const std::int64_t columns = input.size[input.dims - 1];
  auto* row = exec.workspace<float>(columns);
  for (std::int64_t i = 0; i < output.count(); ++i) {
    std::copy_n(input.as<float>() + i * columns, columns, row);
    output.as<float>()[i] = *std::max_element(row, row + columns);
  }
}

void sgd_step(const Tensors& params, const Tensors& grads, const Tensors&, double lr, double, double, double, bool,
              bool, bool, const ExecContext&) {
  for (std::size_t t = 0; t < params.length; ++t)
    for (std::int64_t i = 0; i < params[t].count(); ++i)
      params[t].as<float>()[i] -= static_cast<float>(lr) * grads[t].as<float>()[i];
}

void fails(const Tensor&, const Tensor&, const ExecContext& exec) {
  exec.workspace<float>(9);
  throw std::runtime_error("it fails");
}

void throws(const Tensor&, const Tensor&, const ExecContext&) { throw 1; }

void overruns(const Tensor& input, const Tensor& output, const ExecContext&) {
  output.as<float>()[0] = input.as<float>()[input.count()];
}

[[maybe_unused]] const AddKernel added[] = {
    add_kernel<&neg>("neg", DType::float32, Layout::in_place),
    add_kernel<&add>("add", DType::float32, Layout::in_place),
    add_kernel<&mul>("mul", DType::float32, Layout::in_place),
    add_kernel<&amax>("amax", DType::float32, Layout::rows),
    add_kernel<&sgd_step>("sgd_step", DType::float32, Layout::lists),
    add_kernel<&fails>("fails", DType::float32),
    add_kernel<&throws>("throws", DType::float32),
    add_kernel<&overruns>("overruns", DType::float32),
};

}  // namespace

PyMODINIT_FUNC PyInit_kit() {
  PyObject* module = repdl::python::make_module("kit");
  if (module != nullptr && !repdl::python::add_call_types(module)) Py_CLEAR(module);
  return module;
}
