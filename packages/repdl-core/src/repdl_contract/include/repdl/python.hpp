// The table of kernels (backend.hpp) as Python sees it: one module of callable kernels.
//
//   PyMODINIT_FUNC PyInit__native() { return repdl::python::make_module("_native"); }
//
// The module has `kernels`, a dictionary from (op, dtype) to a kernel, which `repdl.registry.native` calls with the
// arguments of the op, the outputs and where to run.
#pragma once

#include "repdl/python/kernel.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// Adds `kernels` to a module. False with Python's error set.
[[nodiscard]] inline bool add_table(PyObject* module) {
  const auto add = [module] {
    if (Torch::get().exchange != nullptr) TorchMemory::get();  // now, as no call may import anything
    const Ref table = checked(PyDict_New());
    for (const Kernel& kernel : kernels()) {
      const Ref object = make_kernel(kernel);
      const Ref key = checked(Py_BuildValue("(ss)", kernel.op, name_of(kernel.dtype)));
      if (PyDict_SetItem(table.get(), key.get(), object.get()) != 0) throw PythonError{};
    }
    return needs_no_gil(module) && PyModule_AddObjectRef(module, "kernels", table.get()) == 0;
  };
  return guarded(add, false);
}

// A module with nothing but its kernels, for its PyInit function.
inline PyObject* make_module(const char* name) {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  Ref module(PyModule_Create(&definition));
  return module && add_table(module.get()) ? module.release() : nullptr;
}

}  // namespace repdl::python
#pragma GCC visibility pop
