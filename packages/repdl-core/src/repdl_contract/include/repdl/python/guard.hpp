// Guards: what C finds out about the arguments of a call before one of two functions is called.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "repdl/contract/cast.hpp"
#include "repdl/python/overlap.hpp"
#include "repdl/python/torch_state.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

using Guard = bool (*)(PyObject* const* given, Py_ssize_t count, PyObject* names);

// Whether an object is a plain tensor of a dtype that kernels have, and that dtype.
inline bool has_dtype(PyObject* object, DType& dtype) {
  const TorchState& state = TorchState::get();
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type != state.tensor && type != state.parameter) return false;
  try {
    dtype = Arguments::dtype(Torch::get().dltensor(object));
    return true;
  } catch (const PythonError&) {
    PyErr_Clear();
    return false;
  }
}

inline bool is_floating(DType dtype) { return dtype >= DType::bfloat16; }

// Whether an object is a tensor of a subclass, such as a DTensor.
inline bool is_subclassed(PyObject* object) {
  const TorchState& state = TorchState::get();
  PyTypeObject* type = Py_TYPE(object);
  return reinterpret_cast<PyObject*>(type) != state.tensor && reinterpret_cast<PyObject*>(type) != state.parameter &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(state.tensor));
}

// (...): one of the positional arguments is a floating-point tensor, and none is of a subclass.
inline bool has_floating(PyObject* const* given, Py_ssize_t count, PyObject*) {
  DType dtype;
  return std::any_of(given, given + count,
                     [&](PyObject* object) { return has_dtype(object, dtype) && is_floating(dtype); }) &&
         std::none_of(given, given + count, is_subclassed);
}

// Whether all items of a list or tuple are so; false where another thread makes it shorter meanwhile.
template <class Predicate>
bool all_items(PyObject* sequence, const Predicate& is_so) {
  try {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i)
      if (!is_so(item_of(sequence, i).get())) return false;
    return true;
  } catch (const PythonError&) {
    PyErr_Clear();
    return false;
  }
}

// Whether an argument carries no floating-point value: it is a plain tensor of integers or booleans, an integer or a
// list of them, one of these dtypes, or an option.
inline bool is_whole(PyObject* object) {
  DType dtype;
  const TorchState& state = TorchState::get();
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type == state.device || type == state.layout) return true;
  if (PyLong_Check(object) || object == Py_None || PyUnicode_Check(object)) return true;
  if (Py_TYPE(object) == Torch::get().dtype_type)
    return std::any_of(Torch::get().known.begin(), Torch::get().known.end(),
                       [&](const auto& pair) { return pair.first == object && !is_floating(pair.second); });
  if (PyTuple_Check(object) || PyList_Check(object))
    return all_items(object, [](PyObject* item) { return PyLong_Check(item) != 0; });
  return has_dtype(object, dtype) && !is_floating(dtype);
}

// (...): no argument carries a floating-point value.
inline bool are_whole(PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return std::all_of(given, given + count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names)), is_whole);
}

// (keyset, ...): the same, and so are the results, whose dtype or memory is given.
inline bool are_whole_with_results(PyObject* const* given, Py_ssize_t count, PyObject* names) {
  if (count == 0 || names == nullptr || !are_whole(given + 1, count - 1, names)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    for (const char* name : {"dtype", "out"})
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), name) == 0) return given[count + i] != Py_None;
  return false;
}

// (keyset, tensor): an integer or a boolean is read.
inline bool reads_whole(PyObject* const* given, Py_ssize_t count, PyObject* names) {
  DType dtype;
  return count == 2 && names == nullptr && has_dtype(given[1], dtype) && !is_floating(dtype);
}

// How many elements a row-major tensor on the host has; -1 for another one.
inline std::int64_t row_major_count(PyObject* object, DLTensor& tensor) {
  if (Torch::get().exchange->tensor_from_object(object, &tensor) != 0) {
    PyErr_Clear();
    return -1;
  }
  std::int64_t count = 1;
  for (int d = tensor.dims - 1; d >= 0; count *= tensor.size[d--])
    if (tensor.size[d] != 1 && tensor.stride[d] != count) return -1;
  return tensor.device_type == dlpack_cpu && (tensor.data != nullptr || count == 0) ? count : -1;
}

// Whether integers are made of a row-major tensor, which `define_beyond_range` defines.
inline bool makes_integers(PyObject* source, DType from, DType to) {
  DLTensor tensor;
  return (to == DType::int32 || to == DType::int64) && (from == DType::float32 || from == DType::float64) &&
         row_major_count(source, tensor) >= 0;
}

// What torch has made of a source, the same everywhere.
inline void define_integers(PyObject* source, PyObject* result) {
  DType from, to;
  DLTensor given, made;
  if (!has_dtype(source, from) || !has_dtype(result, to) || !makes_integers(source, from, to) ||
      row_major_count(source, given) != row_major_count(result, made))
    raise(PyExc_RuntimeError, "repdl: integers that torch made have another dtype or layout than their numbers");
  const std::int64_t count = row_major_count(source, given);
  const auto* values = static_cast<std::byte*>(given.data) + given.byte_offset;
  auto* integers = static_cast<std::byte*>(made.data) + made.byte_offset;
  const auto define = [&](auto value, auto integer) {
    define_beyond_range(reinterpret_cast<const decltype(value)*>(values),
                        reinterpret_cast<decltype(integer)*>(integers), count);
  };
  if (from == DType::float32)
    to == DType::int32 ? define(float{}, std::int32_t{}) : define(float{}, std::int64_t{});
  else
    to == DType::int32 ? define(double{}, std::int32_t{}) : define(double{}, std::int64_t{});
}

// Whether torch makes each number of one dtype one of the other with the same bits everywhere: it moves them, or makes
// them of integers or as booleans. Between floating-point dtypes a NaN would be the processor's.
inline bool converts(DType from, DType to) { return !is_floating(from) || from == to || to == DType::boolean; }

// Whether a plain tensor is a view that negates its numbers.
inline bool is_negative(PyObject* tensor) {
  const Ref answer = TorchState::get().is_negative.ask(tensor);
  if (answer.get() == nullptr) PyErr_Clear();
  return answer.get() != Py_False;
}

// (keyset, target, source, ...)
inline bool copies_plainly(PyObject* const* given, Py_ssize_t count, PyObject*) {
  DType from, to;
  if (count < 3 || !has_dtype(given[1], to) || !has_dtype(given[2], from) || !converts(from, to)) return false;
  return !is_floating(from) || !(is_negative(given[1]) || is_negative(given[2]));
}

// The same to integers, as torch makes them but for those that it leaves to the processor.
inline bool copies_to_integers(PyObject* const* given, Py_ssize_t count, PyObject*) {
  DType from, to;
  DLTensor target, source;
  return count >= 3 && has_dtype(given[1], to) && has_dtype(given[2], from) && makes_integers(given[2], from, to) &&
         row_major_count(given[1], target) == row_major_count(given[2], source) && target.dims == source.dims &&
         std::equal(target.size, target.size + target.dims, source.size) && target.data != source.data;
}

// The dtype that is given by its name, if kernels have it.
inline bool named_dtype(PyObject* const* named, PyObject* names, DType& dtype) {
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "dtype") == 0)
      for (const auto& [object, type] : Torch::get().known)
        if (object == named[i]) return dtype = type, true;
  return false;
}

// (keyset, source, dtype=..., ...)
inline bool converts_plainly(PyObject* const* given, Py_ssize_t count, PyObject* names) {
  DType from, to;
  return count == 2 && named_dtype(given + count, names, to) && has_dtype(given[1], from) && converts(from, to);
}

// The same to integers, with no more named than their dtype.
inline bool converts_to_integers(PyObject* const* given, Py_ssize_t count, PyObject* names) {
  DType from, to;
  return count == 2 && named_dtype(given + count, names, to) && PyTuple_GET_SIZE(names) == 1 &&
         has_dtype(given[1], from) && makes_integers(given[1], from, to);
}

// What a call writes: of its arguments by position, one bit each, and those of some names.
class Written {
 public:
  Written(std::uint64_t positions, PyObject* names) : positions_(positions), names_(names) {}

  // Whether C sees that all of it is plain tensors that do not overlap themselves, None, or lists of such.
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
    DLTensor memory;
    if (type == state.tensor || type == state.parameter) {
      if (Torch::get().exchange->tensor_from_object(object, &memory) == 0) return is_nested(memory);
      PyErr_Clear();
      return false;
    }
    if (object == Py_None) return true;
    return (PyList_Check(object) || PyTuple_Check(object)) && all_items(object, [](PyObject* item) {
             return !PyList_Check(item) && !PyTuple_Check(item) && is_apart(item);
           });
  }

  std::uint64_t positions_;
  PyObject* names_;  // a tuple
};

}  // namespace repdl::python
#pragma GCC visibility pop
