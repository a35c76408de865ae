// The extension module of the call cache, which an entry point `repdl.call` names. One in a process is enough: it
// repeats calls of the kernels of all modules that are built for the same version.
//
//   PyMODINIT_FUNC PyInit__call() { return repdl::python::make_call_module("_call"); }
#pragma once

#include "repdl/digest.hpp"
#include "repdl/python/call_type.hpp"
#include "repdl/python/guarded_function.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// Adds the types `Call`, `Shortcut`, `GuardedFunction` and `Recording`, their version, and how many new tensors or
// constants a recording has to a module, if torch has what they need. False with Python's error set.
[[nodiscard]] inline bool add_call_types(PyObject* module) {
  const auto add = [module] {
    if (Torch::get().exchange == nullptr) return true;
    TorchState::get(), TorchMemory::get();  // now, as no call may import anything
    for (auto [name, type] : {std::pair{"Call", call_type()},
                              {"Shortcut", shortcut_type()},
                              {"GuardedFunction", guarded_function_type()},
                              {"Recording", recording_type()}})
      if (type == nullptr || PyModule_AddObjectRef(module, name, type) != 0) return false;
    for (auto [name, value] : {std::pair{"CALL_ABI", long{REPDL_CALL_ABI}},
                               {"MOST_TENSORS", long{Recording::most}},
                               {"MOST_NODE_TENSORS", long{BoundCall::most}}})
      if (PyModule_AddIntConstant(module, name, value) != 0) return false;
    return true;
  };
  return guarded(add, false);
}

// digest_of_bytes(buffer): that of a contiguous buffer.
inline PyObject* digest_of_buffer(PyObject*, PyObject* given) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(given, &buffer, PyBUF_SIMPLE) != 0) return nullptr;
  std::uint64_t digest = 0;
  Py_BEGIN_ALLOW_THREADS;
  digest = digest_of_bytes(static_cast<const unsigned char*>(buffer.buf), static_cast<std::size_t>(buffer.len));
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&buffer);
  return PyLong_FromUnsignedLongLong(digest);
}

inline PyObject* make_call_module(const char* name) {
  static PyMethodDef methods[] = {{"digest_of_bytes", digest_of_buffer, METH_O, nullptr}, {}};
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, name, nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
  Ref module(PyModule_Create(&definition));
  return module && needs_no_gil(module.get()) && add_call_types(module.get()) ? module.release() : nullptr;
}

}  // namespace repdl::python
#pragma GCC visibility pop
