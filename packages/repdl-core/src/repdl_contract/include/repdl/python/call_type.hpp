// `Call` and `Shortcut` as Python has them.
//
// `Call(function, record, generation, variable_scalars)` is called as `function` is. `Shortcut`, with the same
// arguments, is the same for a method of torch.Tensor and calls without gradients: what is not called at once, but
// taken from the class or an object, is the method itself.
#pragma once

#include "repdl/python/call.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// (function, record, generation, variable_scalars=False)
inline PyObject* make_call(PyTypeObject* type, PyObject* arguments, PyObject* named, bool takes_gradients) {
  static const char* known[] = {"function", "record", "generation", "variable_scalars", nullptr};
  PyObject *function, *record, *cell;
  int variable_scalars = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "OOO!|p:Call", const_cast<char**>(known), &function, &record,
                                   &PyList_Type, &cell, &variable_scalars))
    return nullptr;
  for (PyObject* given : {function, record})
    if (!PyCallable_Check(given))
      return PyErr_Format(PyExc_TypeError, "Call: got a %s, expected a function", Py_TYPE(given)->tp_name);
  if (PyList_GET_SIZE(cell) != 1)
    return PyErr_Format(PyExc_ValueError, "Call: its list of a generation has %zd items, expected one",
                        PyList_GET_SIZE(cell));
  return guarded(
      [&] {
        auto entries = std::make_unique<Entries>();
        Ref self = checked(PyType_GenericAlloc(type, 0));
        CallObject& call = *reinterpret_cast<CallObject*>(self.get());
        call.vectorcall = vectorcall;
        call.variable_scalars = variable_scalars != 0;
        call.takes_gradients = takes_gradients;
        call.function = owned(function).release();
        call.record = owned(record).release();
        call.cell = owned(cell).release();
        call.entries = entries.release();
        return self.release();
      },
      static_cast<PyObject*>(nullptr));
}

inline PyObject* new_call(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  return make_call(type, arguments, named, true);
}

inline PyObject* new_shortcut(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  return make_call(type, arguments, named, false);
}

inline int traverse_call(PyObject* self, visitproc visit, void* arg) {
  const CallObject& call = *reinterpret_cast<CallObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(call.function);
  Py_VISIT(call.record);
  Py_VISIT(call.cell);
  Py_VISIT(call.dict);
  Py_VISIT(call.generation);
  if (call.entries != nullptr)  // not locked: every other thread waits while Python collects garbage
    for (const auto& [hash, entry] : *call.entries) Py_VISIT(entry.recording.get());
  return 0;
}

inline int clear_call(PyObject* self) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  Py_CLEAR(call.dict);
  if (call.entries != nullptr) clear(call);
  return 0;
}

inline void free_call(PyObject* self) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (call.weak != nullptr) PyObject_ClearWeakRefs(self);
  delete call.entries;
  for (PyObject** object : {&call.function, &call.record, &call.cell, &call.dict, &call.generation}) Py_CLEAR(*object);
  type->tp_free(self);
  Py_DECREF(type);
}

// A function that is an attribute of a class is a method of its objects; so is a call.
inline PyObject* bind_call(PyObject* self, PyObject* object, PyObject*) {
  return object != nullptr && object != Py_None ? PyMethod_New(self, object) : owned(self).release();
}

// A call `object.method(...)` does not come here, since the type says that it is a method descriptor.
inline PyObject* bind_original(PyObject* self, PyObject* object, PyObject* type) {
  const Ref function = function_of(*reinterpret_cast<CallObject*>(self));
  const descrgetfunc bind = Py_TYPE(function.get())->tp_descr_get;
  return bind == nullptr ? owned(function.get()).release() : bind(function.get(), object, type);
}

// A call is pickled and copied by its name, as a function is.
inline PyObject* reduce_call(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

// Shortcut.allow(allowed): whether shortcuts are taken; otherwise the methods are called
inline PyObject* allow_shortcuts(PyObject*, PyObject* allowed) {
  const int is_true = PyObject_IsTrue(allowed);
  if (is_true < 0) return nullptr;
  shortcuts_allowed() = is_true != 0;
  Py_RETURN_NONE;
}

inline PyObject* reduce_shortcut(PyObject* self, PyObject*) {
  return PyObject_CallMethod(function_of(*reinterpret_cast<CallObject*>(self)).get(), "__reduce__", nullptr);
}

inline PyObject* show_call(PyObject* self) {
  return PyObject_Repr(function_of(*reinterpret_cast<CallObject*>(self)).get());
}

// Call.define_call(function): what the type shows as its `__call__`, for torch.compile, which reads it. A call goes
// through the slot of the type, not through this function.
inline PyObject* define_call(PyObject* type, PyObject* function) {
  auto* shown = reinterpret_cast<PyTypeObject*>(type);
  if (PyDict_SetItemString(shown->tp_dict, "__call__", function) != 0) return nullptr;
  PyType_Modified(shown);
  Py_RETURN_NONE;
}

// Call.is_variable(number): whether a signature with variable scalars is without its value
inline PyObject* is_variable(PyObject*, PyObject* number) {
  const double value = PyFloat_AsDouble(number);
  return value == -1 && PyErr_Occurred() ? nullptr : PyBool_FromLong(Signature::is_variable(value));
}

// How many calls are recorded.
inline PyObject* get_recordings(PyObject* self, void*) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  return guarded(
      [&] {
        const auto recorded = [&] {
          const Locked locked(call.mutex);
          return std::count_if(call.entries->begin(), call.entries->end(),
                               [](const auto& pair) { return pair.second.state == Entry::State::recorded; });
        };
        return PyLong_FromSsize_t(has_generation(call) ? recorded() : 0);
      },
      static_cast<PyObject*>(nullptr));
}

inline PyObject* get_wrapped(PyObject* self, void*) {
  return function_of(*reinterpret_cast<CallObject*>(self)).release();
}

// Sets another function, and clears what was recorded of the one before.
inline int set_wrapped(PyObject* self, PyObject* function, void*) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  if (function == nullptr || !PyCallable_Check(function)) {
    PyErr_Format(PyExc_TypeError, "__wrapped__ is what a call does: got %s, expected a function",
                 function == nullptr ? "nothing" : Py_TYPE(function)->tp_name);
    return -1;
  }
  Ref before = owned(function);
  std::unique_ptr<Entries> released;
  const Locked locked(call.mutex);
  if (function != call.function) released = take_entries(call);
  before = Ref(std::exchange(call.function, before.release()));
  return 0;
}

inline PyObject* call_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallObject, vectorcall), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(CallObject, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(CallObject, weak), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyGetSetDef getters[] = {
      {"__wrapped__", get_wrapped, set_wrapped, "the function", nullptr},
      {"recordings", get_recordings, nullptr, "how many calls are recorded", nullptr},
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyMethodDef methods[] = {
      {"__reduce__", reduce_call, METH_NOARGS, nullptr},
      {"define_call", define_call, METH_O | METH_CLASS, "define_call(function): show it as __call__ of the type"},
      {"is_variable", is_variable, METH_O | METH_STATIC,
       "is_variable(number): whether a signature with variable scalars is without its value"},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_call)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_call)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bind_call)},
      {Py_tp_repr, reinterpret_cast<void*>(show_call)},
      {Py_tp_members, members},
      {Py_tp_getset, getters},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Call", sizeof(CallObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_BASETYPE,
                             slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

inline PyObject* shortcut_type() {
  static PyMethodDef methods[] = {
      {"__reduce__", reduce_shortcut, METH_NOARGS, nullptr},
      {"allow", allow_shortcuts, METH_O | METH_STATIC,
       "allow(allowed): whether shortcuts are taken; otherwise the methods are called"},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_shortcut)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_call)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bind_original)},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "repdl.Shortcut", sizeof(CallObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
  static PyObject* type = nullptr;
  if (type == nullptr && call_type() != nullptr) {
    const Ref bases(PyTuple_Pack(1, call_type()));
    type = bases ? PyType_FromSpecWithBases(&spec, bases.get()) : nullptr;
  }
  return type;
}

}  // namespace repdl::python
#pragma GCC visibility pop
