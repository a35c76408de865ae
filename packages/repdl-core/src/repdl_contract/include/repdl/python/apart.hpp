// Whether each element of a tensor that a call writes has memory of its own.
#pragma once

#include <algorithm>
#include <array>

#include "repdl/python/signature.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// Whether each stride steps over all that smaller ones reach. Tensors for which this does not hold may still be apart:
// repdl.tensors.overlap decides.
inline bool is_nested(const DLTensor& tensor) {
  constexpr int most = 16;
  std::array<std::pair<std::int64_t, std::int64_t>, most> steps;  // strides and sizes, by stride
  int count = 0;
  for (int d = tensor.dims - 1; d >= 0; --d) {
    if (tensor.size[d] == 0) return true;
    if (tensor.size[d] == 1) continue;
    if (count == most) return false;
    int place = count++;
    for (; place > 0 && steps[place - 1].first > tensor.stride[d]; --place) steps[place] = steps[place - 1];
    steps[place] = {tensor.stride[d], tensor.size[d]};
  }
  std::int64_t reached = 0;
  for (int i = 0; i < count; ++i) {
    if (steps[i].first <= reached) return false;
    reached += steps[i].first * (steps[i].second - 1);
  }
  return true;
}

// What a call writes: of its arguments by position, one bit each, and those of some names.
class Written {
 public:
  Written(std::uint64_t positions, PyObject* names) : positions_(positions), names_(names) {}

  // Whether C sees that all of it is plain tensors that are nested, None, or lists of such.
  bool are_apart(PyObject* const* given, Py_ssize_t count, PyObject* names) const {
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(count, 64); ++i)
      if ((positions_ >> i & 1) != 0 && !is_apart(given[i])) return false;
    for (Py_ssize_t i = 0; names_ != nullptr && names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
      if (has_name(PyTuple_GET_ITEM(names, i)) && !is_apart(given[count + i])) return false;
    return true;
  }

  PyObject* names() const { return names_; }

 private:
  bool has_name(PyObject* name) const {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names_); ++i)
      if (PyUnicode_Compare(PyTuple_GET_ITEM(names_, i), name) == 0) return true;
    return false;
  }

  static bool is_apart(PyObject* object) {
    const TorchState& state = TorchState::get();
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    DLTensor seen;
    if (type == state.tensor || type == state.parameter) {
      if (Torch::get().exchange->tensor_from_object(object, &seen) == 0) return is_nested(seen);
      PyErr_Clear();
      return false;
    }
    if (object == Py_None) return true;
    if (PyList_Check(object) || PyTuple_Check(object)) {
      PyObject** first = PySequence_Fast_ITEMS(object);
      return std::all_of(first, first + PySequence_Fast_GET_SIZE(object),
                         [](PyObject* item) { return !PyList_Check(item) && !PyTuple_Check(item) && is_apart(item); });
    }
    return false;
  }

  std::uint64_t positions_;
  PyObject* names_;  // a tuple
};

}  // namespace repdl::python
#pragma GCC visibility pop
