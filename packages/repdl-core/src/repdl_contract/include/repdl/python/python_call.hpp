// What a recorded call asks of Python before its kernels run: functions, and checks of values.
#pragma once

#include <vector>

#include "repdl/python/bound_call.hpp"
#include "repdl/python/signature.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// A function of Python, and what it is called with: tensors of the call, and values.
class PythonCall {
 public:
  // `arguments`: a tuple of `Argument` (repdl.callcache.plan)
  PythonCall(PyObject* function, PyObject* arguments) : function_(owned(function)) {
    const Items all(arguments, "Recording: the arguments of a function");
    if (all.size() >= static_cast<Py_ssize_t>(BoundCall::most))
      raise(PyExc_ValueError, "Recording: a function has %zd arguments, expected less than %zd", all.size(),
            static_cast<Py_ssize_t>(BoundCall::most));
    for (Py_ssize_t i = 0; i < all.size(); ++i) {
      const Fields argument(all[i], "Recording: an argument of a function");
      arguments_.push_back({argument.optional_number("tensor"), argument.get("value")});
      if (const auto tensor = arguments_.back().tensor) {
        if (*tensor < 0) raise(PyExc_ValueError, "Recording: an argument is tensor %zd, expected 0 or more", *tensor);
        tensors_ = std::max(tensors_, *tensor + 1);
      }
    }
  }

  // `last` is one argument more, unless it is null.
  Ref run(PyObject* const* tensor, PyObject* last) const {
    PyObject* given[BoundCall::most];
    std::size_t count = 0;
    for (const Argument& argument : arguments_)
      given[count++] = argument.tensor ? tensor[*argument.tensor] : argument.value.get();
    if (last != nullptr) given[count++] = last;
    return checked(PyObject_Vectorcall(function_.get(), given, count, nullptr));
  }

  // Which tensor of the call an argument is, if it is one.
  std::optional<std::ptrdiff_t> tensor(std::size_t argument) const { return arguments_[argument].tensor; }

  std::size_t arguments() const { return arguments_.size(); }

  // How many tensors the call has to have.
  std::ptrdiff_t tensors() const { return tensors_; }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_.get());
    for (const Argument& argument : arguments_) Py_VISIT(argument.value.get());
    return 0;
  }

 private:
  struct Argument {
    std::optional<std::ptrdiff_t> tensor;
    Ref value;
  };

  Ref function_;
  std::vector<Argument> arguments_;
  std::ptrdiff_t tensors_ = 0;
};

// The elements of an int64 tensor of the call from `first` to `count` are in a range, or one other value.
class ElementRange {
 public:
  explicit ElementRange(PyObject* object) {
    const Fields range(object, "Recording: a range of elements");
    tensor_ = range.number("tensor");
    first_ = range.number("first");
    count_ = range.number("count");
    low_ = range.number("low");
    end_ = range.number("end");
    other_ = range.number("other");
    if (tensor_ < 0 || first_ < 0)
      raise(PyExc_ValueError, "Recording: a range of elements of tensor %zd begins at %zd, expected 0 or more", tensor_,
            static_cast<Py_ssize_t>(first_));
  }

  std::ptrdiff_t tensor() const { return tensor_; }

  // The elements are contiguous and on the host.
  bool holds(const DLTensor* memory) const {
    const DLTensor& tensor = memory[tensor_];
    const auto* value =
        reinterpret_cast<const std::int64_t*>(static_cast<std::byte*>(tensor.data) + tensor.byte_offset);
    // Modulo 2**64 the first difference is negative below the range, the second one above it, or the other way round.
    std::uint64_t outside = 0;
    for (std::int64_t i = first_; i < count_; ++i) {
      const auto at = static_cast<std::uint64_t>(value[i]);
      outside |= (at - static_cast<std::uint64_t>(low_)) | (static_cast<std::uint64_t>(end_) - 1 - at);
    }
    if (outside >> 63 == 0) return true;
    bool holds = true;
    for (std::int64_t i = first_; i < count_; ++i) holds &= (value[i] >= low_ && value[i] < end_) || value[i] == other_;
    return holds;
  }

 private:
  std::ptrdiff_t tensor_;
  std::int64_t first_, count_, low_, end_, other_;
};

// A check of values: a function that raises, called unless the elements are in a range.
class Check {
 public:
  explicit Check(PyObject* object) : Check(Fields(object, "Recording: a check")) {}

  void run(const CallTensors& call) const {
    if (!passes_ || !passes_->holds(call.memory)) call_.run(call.objects, nullptr);
  }

  // How many tensors the call has to have.
  std::ptrdiff_t tensors() const { return std::max(call_.tensors(), passes_ ? passes_->tensor() + 1 : 0); }

  int traverse(visitproc visit, void* arg) const { return call_.traverse(visit, arg); }

 private:
  explicit Check(const Fields& check) : call_(check.get("function").get(), check.get("arguments").get()) {
    const Ref range = check.get("passes");
    if (range.get() != Py_None) passes_.emplace(range.get());
  }

  PythonCall call_;
  std::optional<ElementRange> passes_;
};

}  // namespace repdl::python
#pragma GCC visibility pop
