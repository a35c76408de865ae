// The routes that kernels choose between, counted where REPDL_COUNT_ROUTES is defined (a build for
// tests: tests/test_routes.py); nothing elsewhere.
//
//   REPDL_ROUTE("skinny gemm", R, V);   counts once more that this was reached, as "skinny gemm 3 2"
//
// A route is known from when the module is loaded, so that those never taken have a name too. The
// numbers are constants: each instance of a template is a route.
#pragma once

#if defined(REPDL_COUNT_ROUTES)

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace repdl::cpu {

using Routes = std::map<std::string, std::atomic<std::int64_t>>;

inline Routes& routes() {
  static Routes all;
  return all;
}

template <class... Number>
std::string route_name(const char* name, Number... numbers) {
  std::string result = name;
  ((result += " " + std::to_string(numbers)), ...);
  return result;
}

template <class Here>
struct Route {
  static inline std::atomic<std::int64_t>& count = routes()[Here::name()];
};

}  // namespace repdl::cpu

#define REPDL_ROUTE(...)                                                        \
  do {                                                                          \
    struct Here {                                                               \
      static std::string name() { return repdl::cpu::route_name(__VA_ARGS__); } \
    };                                                                          \
    ++repdl::cpu::Route<Here>::count;                                           \
  } while (false)

#else

#define REPDL_ROUTE(...) static_cast<void>(0)

#endif
