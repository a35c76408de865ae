// What a recorded call asks before its kernels run: functions of Python, and ranges of values.
#pragma once

#include "repdl/python/kept.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// A function of Python, and what it is called with: tensors of the call, and constants.
class Callee {
 public:
  // ((index of a tensor, None) or (-1, constant), ...)
  Callee(PyObject* function, PyObject* arguments) : function_(owned(function)) {
    const Items all(arguments, "Recording: the arguments of a function");
    if (all.size() >= static_cast<Py_ssize_t>(Kept::most))
      raise(PyExc_ValueError, "Recording: a function has %zd arguments, expected less than %zd", all.size(),
            static_cast<Py_ssize_t>(Kept::most));
    for (Py_ssize_t i = 0; i < all.size(); ++i) {
      const Items pair(all[i], "Recording: an argument of a function", 2);
      arguments_.emplace_back(pair.number(0), owned(pair[1]));
      tensors_ = std::max(tensors_, arguments_.back().first + 1);
    }
  }

  // `last` is one argument more, unless it is null.
  Ref call(PyObject* const* tensor, PyObject* last) const {
    PyObject* given[Kept::most];
    std::size_t count = 0;
    for (const auto& [index, constant] : arguments_) given[count++] = index < 0 ? constant.get() : tensor[index];
    if (last != nullptr) given[count++] = last;
    return checked(PyObject_Vectorcall(function_.get(), given, count, nullptr));
  }

  // Which tensor of the call an argument is; less than 0 for a constant.
  std::ptrdiff_t source(std::size_t argument) const { return arguments_[argument].first; }

  std::size_t arguments() const { return arguments_.size(); }

  // How many tensors the call has to have.
  std::ptrdiff_t tensors() const { return tensors_; }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_.get());
    for (const auto& [index, constant] : arguments_) Py_VISIT(constant.get());
    return 0;
  }

 private:
  Ref function_;
  std::vector<std::pair<std::ptrdiff_t, Ref>> arguments_;
  std::ptrdiff_t tensors_ = 0;
};

// What a check asks of the values of a tensor, if that is all.
class Range {
 public:
  // (index of a tensor, how many values, bounds, value, the first that counts) or None
  explicit Range(PyObject* range) {
    if (range == Py_None) return;
    const Items items(range, "Recording: a range of values", 6);
    std::int64_t* places[] = {&tensor_, &count_, &low_, &end_, &other_, &first_};
    for (Py_ssize_t i = 0; i < 6; ++i) *places[i] = items.number(i);
    if (first_ < 0)
      raise(PyExc_ValueError, "Recording: the first value that counts is %lld, expected 0 or more",
            static_cast<long long>(first_));
  }

  // How many tensors the call has to have.
  std::ptrdiff_t tensors() const { return static_cast<std::ptrdiff_t>(tensor_) + 1; }

  // Whether it is known to come out well. Values lie one after the other, in the memory of the host.
  bool holds(const DLTensor* seen) const {
    if (tensor_ < 0) return false;
    const DLTensor& tensor = seen[tensor_];
    const auto* value =
        reinterpret_cast<const std::int64_t*>(static_cast<std::byte*>(tensor.data) + tensor.byte_offset);
    bool holds = true;
    for (std::int64_t i = first_; i < count_; ++i) holds &= (value[i] >= low_ && value[i] < end_) || value[i] == other_;
    return holds;
  }

 private:
  std::int64_t tensor_ = -1, count_ = 0, low_ = 0, end_ = 0, other_ = 0, first_ = 0;
};

}  // namespace repdl::python
#pragma GCC visibility pop
