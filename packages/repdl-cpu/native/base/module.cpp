#include "base/bind.hpp"
#include "base/openmp.hpp"
#include "base/routes.hpp"
#include "repdl/python.hpp"

PYBIND11_MODULE(REPDL_MODULE, module) {
  using namespace repdl::cpu;
  py::module_ f64 = module.def_submodule("f64");
  bind_adam_step<float>(module);
  bind_adam_step<double>(f64);
  bind_sgd_step<float>(module);
  bind_sgd_step<double>(f64);
  repdl::python::add_table(module.ptr());
  module.def("thread_team", [] { return openmp().parallel ? openmp().name : "repdl-cpu"; });
#if defined(REPDL_COUNT_ROUTES)
  module.def("routes", [] {
    std::map<std::string, std::int64_t> taken;
    for (const auto& [name, count] : routes()) taken[name] = count;
    return taken;
  });
#endif
}
