// A kernel of the table (backend.hpp) as Python has it: an object that is called.
#pragma once

#include "repdl/python/bound_call.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

struct KernelObject {
  PyObject_HEAD const Kernel* kernel;
};

inline const Kernel& kernel_of(PyObject* object) { return *reinterpret_cast<KernelObject*>(object)->kernel; }

// kernel(arguments, outputs, (threads, device, stream), like): the last a tensor beside which memory is taken
inline PyObject* call_kernel(PyObject* self, PyObject* given, PyObject* named) {
  const Kernel& kernel = kernel_of(self);
  return guarded(
      [&]() -> PyObject* {
        refuse_keywords(kernel.op, named);
        const auto tuple = [given](Py_ssize_t i) { return PyTuple_Check(PyTuple_GET_ITEM(given, i)) != 0; };
        if (PyTuple_GET_SIZE(given) != 4 || !tuple(0) || !tuple(1) || !tuple(2) ||
            PyTuple_GET_SIZE(PyTuple_GET_ITEM(given, 2)) != 3)
          raise(PyExc_TypeError, "%s: expected (arguments, outputs, (threads, device, stream), like)", kernel.op);
        const Items items(given, kernel.op), where(items[2], kernel.op);
        const int threads = static_cast<int>(where.number(0)), device = static_cast<int>(where.number(1));
        if (threads < 1) raise(PyExc_ValueError, "%s: got %d threads, expected 1 or more", kernel.op, threads);
        auto* stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(where.number(2)));
        run_kernel(kernel, read_all(kernel, items[0], items[1]).data(), threads, device, stream, items[3]);
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

inline PyObject* get_bound_call(PyObject* self, void*);

inline PyObject* kernel_type() {
  static PyGetSetDef getters[] = {
      {"layout", get_layout, nullptr, "strided, in_place, rows, last, flat or lists", nullptr},
      {"arguments", get_arguments, nullptr, "number of arguments and outputs", nullptr},
      {bound_call_attribute, get_bound_call, nullptr, "how a call is bound, for repdl/python/recording.hpp", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(call_kernel)},
      {Py_tp_getset, getters},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Kernel", sizeof(KernelObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

inline Ref make_kernel(const Kernel& kernel) {
  auto* type = reinterpret_cast<PyTypeObject*>(kernel_type());
  if (type == nullptr) throw PythonError{};
  Ref object = checked(PyType_GenericAlloc(type, 0));
  reinterpret_cast<KernelObject*>(object.get())->kernel = &kernel;
  return object;
}

inline void* bind_call_of(PyObject* kernel, PyObject* arguments, PyObject* outputs, std::size_t* tensors) {
  return guarded(
      [&]() -> void* {
        if (reinterpret_cast<PyObject*>(Py_TYPE(kernel)) != kernel_type())
          raise(PyExc_TypeError, "Recording: got a %s, expected a kernel", Py_TYPE(kernel)->tp_name);
        auto* bound = new BoundCall(kernel_of(kernel), arguments, outputs);
        *tensors = bound->tensors();
        return bound;
      },
      static_cast<void*>(nullptr));
}

inline int run_bound_call(const void* bound, void* const* addresses, const double* scalars, int threads, int device,
                          void* stream, PyObject* like) {
  return guarded(
      [&] {
        static_cast<const BoundCall*>(bound)->run(addresses, scalars, threads, device, stream, like);
        return 0;
      },
      -1);
}

inline void drop_bound_call(void* bound) { delete static_cast<BoundCall*>(bound); }

inline PyObject* get_bound_call(PyObject*, void*) {
  static constexpr BoundCallFunctions functions{bind_call_of, run_bound_call, drop_bound_call};
  return PyCapsule_New(const_cast<BoundCallFunctions*>(&functions), bound_call_capsule, nullptr);
}

}  // namespace repdl::python
#pragma GCC visibility pop
