// The Python module of one ISA: its table of kernels.
#include "base/routes.hpp"
#include "repdl/python.hpp"

#define REPDL_INIT_OF(name) PyInit_##name
#define REPDL_INIT(name) REPDL_INIT_OF(name)

#if defined(REPDL_COUNT_ROUTES)
namespace {

// routes(): how often each was taken
PyObject* count_routes(PyObject*, PyObject*) {
  using namespace repdl::python;
  Ref taken(PyDict_New());
  for (const auto& [name, count] : repdl::cpu::routes()) {
    const Ref number(PyLong_FromLongLong(count.load()));
    if (!taken || !number || PyDict_SetItemString(taken.get(), name.c_str(), number.get()) != 0) return nullptr;
  }
  return taken.release();
}

}  // namespace
#endif

PyMODINIT_FUNC REPDL_INIT(REPDL_MODULE)() {
  PyObject* module = repdl::python::make_module(REPDL_TEXT(REPDL_MODULE));
#if defined(REPDL_COUNT_ROUTES)
  static PyMethodDef functions[] = {{"routes", count_routes, METH_NOARGS, nullptr}, {}};
  if (module != nullptr && PyModule_AddFunctions(module, functions) != 0) return nullptr;
#endif
  return module;
}
