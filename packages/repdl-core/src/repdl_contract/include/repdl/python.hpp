// The table of kernels (backend.hpp) as Python sees it: one module of callable kernels.
//
//   PyMODINIT_FUNC PyInit__native() { return repdl::python::make_module("_native"); }
//
// The module has `kernels`, a dictionary from (op, dtype) to a kernel, which `repdl.native` calls with the
// arguments of the op, the outputs and where to run, and `Call`, with which `repdl.replay` makes the fast
// way of a call.
#pragma once

#include "repdl/python/arguments.hpp"
#include "repdl/python/call.hpp"
#include "repdl/python/kept.hpp"

namespace repdl::python {

inline std::int64_t integer_in(PyObject* tuple, Py_ssize_t index) {
  const long long result = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, index));
  if (result == -1 && PyErr_Occurred()) throw PythonError{};
  return result;
}

// kernel(arguments, outputs, (threads, device, stream), like): the last a tensor beside which memory is taken
inline PyObject* call_kernel(PyObject* self, PyObject* given, PyObject*) {
  const Kernel& kernel = kernel_of(self);
  const auto tuple = [given](Py_ssize_t i) { return PyTuple_Check(PyTuple_GET_ITEM(given, i)); };
  if (PyTuple_GET_SIZE(given) != 4 || !tuple(0) || !tuple(1) || !tuple(2) ||
      PyTuple_GET_SIZE(PyTuple_GET_ITEM(given, 2)) != 3) {
    PyErr_Format(PyExc_TypeError, "%s: expected (arguments, outputs, (threads, device, stream), like)", kernel.op);
    return nullptr;
  }
  PyObject *arguments = PyTuple_GET_ITEM(given, 0), *outputs = PyTuple_GET_ITEM(given, 1);
  PyObject* where = PyTuple_GET_ITEM(given, 2);
  return guarded(
      [&]() -> PyObject* {
        const int threads = static_cast<int>(integer_in(where, 0)), device = static_cast<int>(integer_in(where, 1));
        auto* stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(integer_in(where, 2)));
        run_kernel(kernel, read_all(kernel, arguments, outputs).data(), threads, device, stream,
                   PyTuple_GET_ITEM(given, 3));
        Py_RETURN_NONE;
      },
      static_cast<PyObject*>(nullptr));
}

inline const char* name_of(DType dtype) {
  constexpr const char* names[] = {"bool",  "uint8",    "int8",    "int16",   "int32",
                                   "int64", "bfloat16", "float16", "float32", "float64"};
  return names[static_cast<int>(dtype)];
}

inline PyObject* get_layout(PyObject* self, void*) {
  constexpr const char* names[] = {"strided", "in_place", "rows", "last", "flat", "lists"};
  return PyUnicode_FromString(names[static_cast<int>(kernel_of(self).layout)]);
}

inline PyObject* get_arguments(PyObject* self, void*) { return PyLong_FromSize_t(kernel_of(self).arguments); }

inline PyObject* kernel_type() {
  static PyGetSetDef getters[] = {
      {"layout", get_layout, nullptr, "strided, in_place, rows, last, flat or lists", nullptr},
      {"arguments", get_arguments, nullptr, "number of arguments and outputs", nullptr},
      {"kept_2", get_kept, nullptr, "how a call is kept and run again, for repdl/python/call.hpp", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(call_kernel)},
      {Py_tp_getset, getters},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Kernel", sizeof(KernelObject), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

// Adds `kernels` and `Call` to a module.
inline void add_table(PyObject* module) {
  Ref table = checked(PyDict_New());
  for (const Kernel& kernel : kernels()) {
    auto* type = reinterpret_cast<PyTypeObject*>(kernel_type());
    if (type == nullptr) throw PythonError{};
    const Ref object = checked(PyType_GenericAlloc(type, 0));
    reinterpret_cast<KernelObject*>(object.get())->kernel = &kernel;
    const Ref key = checked(Py_BuildValue("(ss)", kernel.op, name_of(kernel.dtype)));
    if (PyDict_SetItem(table.get(), key.get(), object.get()) != 0) throw PythonError{};
  }
  if (PyModule_AddObject(module, "kernels", table.get()) != 0) throw PythonError{};
  table.release();
  add_call(module);
}

// A module with nothing but its kernels, for its PyInit function.
inline PyObject* make_module(const char* name) {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  Ref module(PyModule_Create(&definition));
  if (!module) return nullptr;
  try {
    add_table(module.get());
  } catch (const PythonError&) {
    return nullptr;
  }
  return module.release();
}

}  // namespace repdl::python
