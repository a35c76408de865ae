// A call of a kernel, bound to all of its arguments but the addresses of tensors.
//
// Modules of several projects meet here, so that it goes through functions and plain data alone.
#pragma once

#include <algorithm>

#include "repdl/python/abi.hpp"
#include "repdl/python/buffer.hpp"
#include "repdl/python/workspace.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// What a kernel has as this attribute, in a capsule of this name.
constexpr const char* bound_call_attribute = "bound_call";
constexpr const char* bound_call_capsule = "repdl.bound_call_" REPDL_TEXT(REPDL_CALL_ABI);
struct BoundCallFunctions {
  // Binds these arguments and outputs, two tuples; null with Python's error set. `tensors` is set to
  // how many addresses it takes: those of the tensors among the arguments, one by one if they are in lists,
  // then of the outputs.
  void* (*bind)(PyObject* kernel, PyObject* arguments, PyObject* outputs, std::size_t* tensors);
  // Runs it. `scalars` takes the place of the floating-point numbers among the arguments, unless it is null; `like`
  // is a tensor beside which memory is taken. -1 with Python's error set, else 0.
  int (*run)(const void* bound, void* const* addresses, const double* scalars, int threads, int device, void* stream,
             PyObject* like);
  void (*drop)(void* bound);
};

// Without the interpreter's lock, from here to the end of the block.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

// The arguments and outputs of a call, which are as many as the kernel has.
inline Arguments read_all(const Kernel& kernel, PyObject* arguments, PyObject* outputs) {
  Arguments all;
  for (PyObject* given : {arguments, outputs}) {
    const Items items(given, kernel.op);
    for (Py_ssize_t i = 0; i < items.size(); ++i) all.add(items[i]);
  }
  if (all.size() != kernel.arguments)
    throw std::logic_error(std::string(kernel.op) + ": got " + std::to_string(all.size()) +
                           " arguments and outputs, the kernel has " + std::to_string(kernel.arguments));
  return all;
}

// Releases the GIL, unless the call is `small`. A call that is `bound` takes its memory in C.
inline void run_kernel(const Kernel& kernel, const Argument* arguments, int threads, int device, void* stream,
                       PyObject* like, bool bound = false, bool small = false) {
  Workspace workspace(like, bound);
  const ExecContext exec{kernel.op, threads, device, stream, Workspace::allocate, &workspace};
  if (small) return kernel.call(arguments, exec);
  const Unlocked unlocked;
  kernel.call(arguments, exec);
}

class BoundCall {
 public:
  static constexpr std::size_t most = 24;  // arguments: they are copied to the stack

  BoundCall(const Kernel& kernel, PyObject* arguments, PyObject* outputs)
      : kernel_(kernel), all_(read_all(kernel, arguments, outputs)) {
    if (all_.size() > most) throw std::logic_error(std::string(kernel.op) + ": too many arguments to bind");
    all_.own();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (const auto* tensor = std::get_if<Tensor>(&all_.data()[i])) {
        elements_ += tensor->count();
        ++tensors_;
      } else if (const auto* list = std::get_if<Tensors>(&all_.data()[i])) {
        for (const Tensor& tensor : *list) elements_ += tensor.count();
        tensors_ += list->length;
        listed_ += list->length;
      }
    }
  }

  std::size_t tensors() const { return tensors_; }

  void run(void* const* addresses, const double* scalars, int threads, int device, void* stream, PyObject* like) const {
    if (listed_ == 0) return run(addresses, scalars, nullptr, threads, device, stream, like);
    Buffer<Tensor, 64> listed(listed_);
    run(addresses, scalars, listed.data(), threads, device, stream, like);
  }

 private:
  void run(void* const* addresses, const double* scalars, Tensor* next, int threads, int device, void* stream,
           PyObject* like) const {
    Argument given[most];  // a copy, like `next`: other threads may run this bound call too
    std::copy_n(all_.data(), all_.size(), given);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (auto* tensor = std::get_if<Tensor>(&given[i])) {
        tensor->data = *addresses++;
      } else if (auto* list = std::get_if<Tensors>(&given[i])) {
        Tensor* first = next;
        for (const Tensor& tensor : *list) (*next++ = tensor).data = *addresses++;
        list->first = first;
      } else if (auto* scalar = std::get_if<double>(&given[i]); scalar != nullptr && scalars != nullptr) {
        *scalar = *scalars++;
      }
    }
    constexpr std::int64_t few = 4096;  // elements: to release the GIL costs more
    run_kernel(kernel_, given, threads, device, stream, like, true, elements_ <= few);
  }

  const Kernel& kernel_;
  Arguments all_;
  std::size_t tensors_ = 0, listed_ = 0;  // how many, and how many of them in lists
  std::int64_t elements_ = 0;             // of all
};

}  // namespace repdl::python
#pragma GCC visibility pop
