// What a recorded call asks before its kernels run: functions of Python, and ranges of values.
#pragma once

#include "repdl/python/kept.hpp"

namespace repdl::python {

inline Ref owned(PyObject* object) {
  Py_INCREF(object);
  return Ref(object);
}

inline std::ptrdiff_t number(PyObject* object) {
  const long long result = PyLong_AsLongLong(object);
  if (result == -1 && PyErr_Occurred()) throw PythonError{};
  return static_cast<std::ptrdiff_t>(result);
}

// A function of Python, and what it is called with: tensors of the call, and constants.
class Callee {
 public:
  // (function, ((index of a tensor, None) or (-1, constant), ...), ...)
  explicit Callee(PyObject* tuple) : function_(owned(PyTuple_GET_ITEM(tuple, 0))) {
    PyObject* arguments = PyTuple_GET_ITEM(tuple, 1);
    if (PyTuple_GET_SIZE(arguments) >= static_cast<Py_ssize_t>(Kept::most))
      throw std::logic_error("Recording: too many arguments");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
      PyObject* pair = PyTuple_GET_ITEM(arguments, i);
      arguments_.emplace_back(number(PyTuple_GET_ITEM(pair, 0)), owned(PyTuple_GET_ITEM(pair, 1)));
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

  // Which tensor of the call an argument is.
  std::size_t source(std::size_t argument) const { return static_cast<std::size_t>(arguments_[argument].first); }

 private:
  Ref function_;
  std::vector<std::pair<std::ptrdiff_t, Ref>> arguments_;
};

// What a check asks of the values of a tensor, if that is all.
class Range {
 public:
  // (index of a tensor, how many values, bounds, value, the first that counts) or None
  explicit Range(PyObject* range) {
    if (range == Py_None) return;
    std::int64_t* places[] = {&tensor_, &count_, &low_, &end_, &other_, &first_};
    for (Py_ssize_t i = 0; i < 6; ++i) *places[i] = number(PyTuple_GET_ITEM(range, i));
  }

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
