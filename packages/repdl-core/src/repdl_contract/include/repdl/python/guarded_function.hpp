// A call of one of two functions: of the first one if the arguments pass a guard.
#pragma once

#include "repdl/python/guard.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

struct GuardedFunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *otherwise;
  Guard guard;      // null: `written` is apart
  int source;       // index of the argument that integers are made of; 0: of none
  Written written;  // by the call
};

inline PyObject* call_guarded(PyObject* self, PyObject* const* given, std::size_t flags, PyObject* names) {
  const GuardedFunctionObject& target = *reinterpret_cast<GuardedFunctionObject*>(self);
  if (target.guard == nullptr)
    return PyObject_Vectorcall(
        target.written.are_apart(given, PyVectorcall_NARGS(flags), names) ? target.function : target.otherwise, given,
        flags, names);
  if (target.guard(given, PyVectorcall_NARGS(flags), names)) {
    PyObject* result = PyObject_Vectorcall(target.function, given, flags, names);
    const auto define = [&] {
      define_integers(given[target.source], result);
      return true;
    };
    if (result != nullptr && target.source > 0 && !guarded(define, false)) Py_CLEAR(result);
    if (result != nullptr || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
    PyErr_Clear();  // it refused its arguments; the other function raises its own error
  }
  return PyObject_Vectorcall(target.otherwise, given, flags, names);
}

// GuardedFunction(guard, function, otherwise, positions=0, names=None); the last two are of arguments that are written,
// for the guard "apart"
inline PyObject* new_guarded_function(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* name;
  PyObject *function, *otherwise, *names = nullptr;
  unsigned long long positions = 0;
  if (named != nullptr && PyDict_GET_SIZE(named) > 0)
    return PyErr_Format(PyExc_TypeError, "GuardedFunction takes no keyword arguments");
  if (!PyArg_ParseTuple(arguments, "sOO|KO!:GuardedFunction", &name, &function, &otherwise, &positions, &PyTuple_Type,
                        &names))
    return nullptr;
  for (PyObject* given : {function, otherwise})
    if (!PyCallable_Check(given))
      return PyErr_Format(PyExc_TypeError, "GuardedFunction: got a %s, expected a function", Py_TYPE(given)->tp_name);
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    if (!PyUnicode_Check(PyTuple_GET_ITEM(names, i)))
      return PyErr_Format(PyExc_TypeError, "GuardedFunction: got a %s, expected a name",
                          Py_TYPE(PyTuple_GET_ITEM(names, i))->tp_name);
  Guard guard = nullptr;
  for (auto [known, candidate] : {std::pair{"floating", has_floating},
                                  {"whole", are_whole},
                                  {"whole with results", are_whole_with_results},
                                  {"whole number", reads_whole},
                                  {"copy", copies_plainly},
                                  {"conversion", converts_plainly},
                                  {"copy to integers", copies_to_integers},
                                  {"conversion to integers", converts_to_integers}})
    if (std::string_view(name) == known) guard = candidate;
  if (guard == nullptr && std::string_view(name) != "apart")
    return PyErr_Format(PyExc_ValueError, "GuardedFunction: no guard is called %s", name);
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  GuardedFunctionObject& target = *reinterpret_cast<GuardedFunctionObject*>(self);
  target.vectorcall = call_guarded;
  target.guard = guard;
  Py_XINCREF(names);
  target.written = Written(positions, names);
  target.source = guard == converts_to_integers ? 1 : guard == copies_to_integers ? 2 : 0;
  for (auto [member, object] : {std::pair{&target.function, function}, {&target.otherwise, otherwise}}) {
    Py_INCREF(object);
    *member = object;
  }
  return self;
}

inline int traverse_guarded_function(PyObject* self, visitproc visit, void* arg) {
  const GuardedFunctionObject& target = *reinterpret_cast<GuardedFunctionObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(target.function);
  Py_VISIT(target.otherwise);
  return 0;
}

inline void free_guarded_function(PyObject* self) {
  GuardedFunctionObject& target = *reinterpret_cast<GuardedFunctionObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(target.function);
  Py_CLEAR(target.otherwise);
  Py_XDECREF(target.written.names());
  type->tp_free(self);
  Py_DECREF(type);
}

inline PyObject* guarded_function_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(GuardedFunctionObject, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_guarded_function)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_guarded_function)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_guarded_function)},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("One function for calls whose arguments pass a guard, and one for others.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "repdl.GuardedFunction", sizeof(GuardedFunctionObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

}  // namespace repdl::python
#pragma GCC visibility pop
