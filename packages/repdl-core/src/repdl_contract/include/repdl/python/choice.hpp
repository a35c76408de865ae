// A call of one of two functions: of the first one if the first argument is a plain floating-point tensor.
#pragma once

#include <structmember.h>

#include <cstddef>

#include "repdl/python/signature.hpp"

namespace repdl::python {

struct ChoiceObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *otherwise;
};

inline bool is_floating_tensor(PyObject* object) {
  const TorchState& state = TorchState::get();
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type != state.tensor && type != state.parameter) return false;
  DLTensor seen;
  if (Torch::get().exchange->tensor_from_object(object, &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  enum { real = 2, brain = 4 };
  return seen.code == real || seen.code == brain;
}

inline PyObject* call_choice(PyObject* self, PyObject* const* given, std::size_t flags, PyObject* names) {
  const ChoiceObject& choice = *reinterpret_cast<ChoiceObject*>(self);
  const bool first = PyVectorcall_NARGS(flags) > 0 && is_floating_tensor(given[0]);
  return PyObject_Vectorcall(first ? choice.function : choice.otherwise, given, flags, names);
}

// Choice(function, otherwise)
inline PyObject* new_choice(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *function, *otherwise;
  if (!PyArg_ParseTuple(arguments, "OO", &function, &otherwise)) return nullptr;
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  ChoiceObject& choice = *reinterpret_cast<ChoiceObject*>(self);
  choice.vectorcall = call_choice;
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
      {Py_tp_doc, const_cast<char*>("One function for calls whose first argument is a floating-point tensor, and one for others.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Choice", sizeof(ChoiceObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

}  // namespace repdl::python
