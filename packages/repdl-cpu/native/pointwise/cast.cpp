// y[i] = x[i] in another format, rounded once (cast.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = round(x[i])
#include "base/bind.hpp"
#include "repdl/contract/cast.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

enum class Format { float32, float64, bfloat16, float16 };

template <class From, class To>
void cast(const From* x, To* y, std::int64_t n, int threads) {
  parallel_for(n, 1 << 15, threads, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) convert(x[i], y[i]);
  });
}

// f(pointer of the format's type)
template <class F>
void with_format(Format format, Address address, const F& f) {
  if (format == Format::float32) f(reinterpret_cast<float*>(address));
  if (format == Format::float64) f(reinterpret_cast<double*>(address));
  if (format == Format::bfloat16) f(reinterpret_cast<BFloat16*>(address));
  if (format == Format::float16) f(reinterpret_cast<Float16*>(address));
}

}  // namespace

void bind_cast(py::module_& module) {
  module.def(
      "cast",
      [](Address x, Address y, int from, int to, std::int64_t n, int threads) {
        with_format(static_cast<Format>(from), x, [&](const auto* in) {
          with_format(static_cast<Format>(to), y, [&](auto* out) { cast(in, out, n, threads); });
        });
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace repdl::cpu
