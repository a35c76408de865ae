// A call of one of two functions: of the first one if the arguments are plain tensors that pass a test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>

#include "repdl/python/apart.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

using Test = bool (*)(PyObject* const* given, Py_ssize_t count, PyObject* names);

struct ChoiceObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *otherwise;
  Test test;     // null: that what is written is apart
  int source;    // which argument integers are made of, if any
  Written what;  // is written
};

// Whether an object is a plain tensor of a dtype that kernels have, and that dtype.
inline bool has_dtype(PyObject* object, DType& dtype) {
  const TorchState& state = TorchState::get();
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type != state.tensor && type != state.parameter) return false;
  try {
    dtype = Arguments::dtype(Torch::get().seen(object));
    return true;
  } catch (const PythonError&) {
    PyErr_Clear();
    return false;
  }
}

inline bool is_floating(DType dtype) { return dtype >= DType::bfloat16; }

// (...): one of the positional arguments is a floating-point tensor.
inline bool has_floating(PyObject* const* given, Py_ssize_t count, PyObject*) {
  DType dtype;
  return std::any_of(given, given + count,
                     [&](PyObject* object) { return has_dtype(object, dtype) && is_floating(dtype); });
}

// Whether an object is a plain tensor of integers or booleans, a whole number or some in a list, the dtype of such, or
// says how to compute with them, or where.
inline bool is_whole(PyObject* object) {
  DType dtype;
  const TorchState& state = TorchState::get();
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type == state.device || type == state.layout) return true;
  if (PyLong_Check(object) || object == Py_None || PyUnicode_Check(object)) return true;
  if (Py_TYPE(object) == Torch::get().dtype_type)
    return std::any_of(Torch::get().known.begin(), Torch::get().known.end(),
                       [&](const auto& pair) { return pair.first == object && !is_floating(pair.second); });
  if (PyTuple_Check(object) || PyList_Check(object)) {
    PyObject** first = PySequence_Fast_ITEMS(object);
    return std::all_of(first, first + PySequence_Fast_GET_SIZE(object),
                       [](PyObject* item) { return PyLong_Check(item); });
  }
  return has_dtype(object, dtype) && !is_floating(dtype);
}

// (...): plain tensors of integers and booleans, whole numbers, and what says how to compute with them.
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

// Whether integers are made of a row-major tensor, which `drop_fractions` defines.
inline bool makes_integers(PyObject* source, DType from, DType to) {
  DLTensor tensor;
  return (to == DType::int32 || to == DType::int64) && (from == DType::float32 || from == DType::float64) &&
         row_major_count(source, tensor) >= 0;
}

// Numbers without their fractions; the lowest integer where none is that number, which is left to the processor.
template <class T, class Integer>
void drop_fractions(const DLTensor& source, const DLTensor& target, std::int64_t count) {
  const auto* value = reinterpret_cast<const T*>(static_cast<std::byte*>(source.data) + source.byte_offset);
  auto* made = reinterpret_cast<Integer*>(static_cast<std::byte*>(target.data) + target.byte_offset);
  constexpr Integer lowest = std::numeric_limits<Integer>::min();
  constexpr T limit = -static_cast<T>(lowest);
  for (std::int64_t i = 0; i < count; ++i) made[i] = std::fabs(value[i]) < limit ? made[i] : lowest;  // as of NaN
}

// What torch has made of a source, the same everywhere.
inline void define_integers(PyObject* source, PyObject* result) {
  DType from, to;
  DLTensor given, made;
  if (!has_dtype(source, from) || !has_dtype(result, to) || !makes_integers(source, from, to) ||
      row_major_count(source, given) != row_major_count(result, made))
    raise(PyExc_RuntimeError, "repdl: integers that torch made have another dtype or layout than their numbers");
  const std::int64_t count = row_major_count(source, given);
  if (from == DType::float32)
    to == DType::int32 ? drop_fractions<float, std::int32_t>(given, made, count)
                       : drop_fractions<float, std::int64_t>(given, made, count);
  else
    to == DType::int32 ? drop_fractions<double, std::int32_t>(given, made, count)
                       : drop_fractions<double, std::int64_t>(given, made, count);
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

inline PyObject* call_choice(PyObject* self, PyObject* const* given, std::size_t flags, PyObject* names) {
  const ChoiceObject& choice = *reinterpret_cast<ChoiceObject*>(self);
  if (choice.test == nullptr)
    return PyObject_Vectorcall(
        choice.what.are_apart(given, PyVectorcall_NARGS(flags), names) ? choice.function : choice.otherwise, given,
        flags, names);
  if (choice.test(given, PyVectorcall_NARGS(flags), names)) {
    PyObject* result = PyObject_Vectorcall(choice.function, given, flags, names);
    const auto define = [&] {
      define_integers(given[choice.source], result);
      return true;
    };
    if (result != nullptr && choice.source > 0 && !guarded(define, false)) Py_CLEAR(result);
    if (result != nullptr || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
    PyErr_Clear();  // nothing has happened: the other one says what is wrong
  }
  return PyObject_Vectorcall(choice.otherwise, given, flags, names);
}

// Choice(test, function, otherwise, positions=0, names=None): with the test "apart", what is written
inline PyObject* new_choice(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* name;
  PyObject *function, *otherwise, *names = nullptr;
  unsigned long long positions = 0;
  if (named != nullptr && PyDict_GET_SIZE(named) > 0)
    return PyErr_Format(PyExc_TypeError, "Choice takes no keyword arguments");
  if (!PyArg_ParseTuple(arguments, "sOO|KO!:Choice", &name, &function, &otherwise, &positions, &PyTuple_Type, &names))
    return nullptr;
  for (PyObject* given : {function, otherwise})
    if (!PyCallable_Check(given))
      return PyErr_Format(PyExc_TypeError, "Choice: got a %s, expected a function", Py_TYPE(given)->tp_name);
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    if (!PyUnicode_Check(PyTuple_GET_ITEM(names, i)))
      return PyErr_Format(PyExc_TypeError, "Choice: got a %s, expected a name",
                          Py_TYPE(PyTuple_GET_ITEM(names, i))->tp_name);
  Test test = nullptr;
  for (auto [known, candidate] : {std::pair{"floating", has_floating},
                                  {"whole", are_whole},
                                  {"whole with results", are_whole_with_results},
                                  {"whole number", reads_whole},
                                  {"copy", copies_plainly},
                                  {"conversion", converts_plainly},
                                  {"copy to integers", copies_to_integers},
                                  {"conversion to integers", converts_to_integers}})
    if (std::string_view(name) == known) test = candidate;
  if (test == nullptr && std::string_view(name) != "apart")
    return PyErr_Format(PyExc_ValueError, "Choice: no test is called %s", name);
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  ChoiceObject& choice = *reinterpret_cast<ChoiceObject*>(self);
  choice.vectorcall = call_choice;
  choice.test = test;
  Py_XINCREF(names);
  choice.what = Written(positions, names);
  choice.source = test == converts_to_integers ? 1 : test == copies_to_integers ? 2 : 0;
  for (auto [place, object] : {std::pair{&choice.function, function}, {&choice.otherwise, otherwise}}) {
    Py_INCREF(object);
    *place = object;
  }
  return self;
}

inline int traverse_choice(PyObject* self, visitproc visit, void* arg) {
  const ChoiceObject& choice = *reinterpret_cast<ChoiceObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(choice.function);
  Py_VISIT(choice.otherwise);
  return 0;
}

inline void free_choice(PyObject* self) {
  ChoiceObject& choice = *reinterpret_cast<ChoiceObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(choice.function);
  Py_CLEAR(choice.otherwise);
  Py_XDECREF(choice.what.names());
  type->tp_free(self);
  Py_DECREF(type);
}

inline PyObject* choice_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(ChoiceObject, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_choice)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_choice)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_choice)},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("One function for calls whose arguments pass a test, and one for others.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "repdl.Choice", sizeof(ChoiceObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

}  // namespace repdl::python
#pragma GCC visibility pop
