// The extension module of the call cache: `repdl_add_call_module` (repdl_contractConfig.cmake) builds it.
#include "repdl/python/call_module.hpp"

PyMODINIT_FUNC PyInit__call() { return repdl::python::make_call_module("_call"); }
