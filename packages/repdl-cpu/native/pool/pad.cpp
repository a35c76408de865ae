// The gradient of padding: elements that were copied several times get a sum (pad.md).
//
//   for i < outer, o < padded, j < inner:  (outer, padded, inner) -> (outer, n, inner)
//     out[i, source[o], j] += grad[i, o, j], o ascending from +0
#include <algorithm>

#include "base/bind.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

template <class T>
void pad_backward(const T* grad, T* out, std::int64_t outer, std::int64_t n, std::int64_t inner, const Sizes& source,
                  int threads) {
  const std::int64_t padded = static_cast<std::int64_t>(source.size());
  parallel_for(outer, std::max<std::int64_t>(1, (1 << 14) / (padded * inner + 1)), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   T* to = out + i * n * inner;
                   std::fill(to, to + n * inner, T(0));
                   for (std::int64_t o = 0; o < padded; ++o) {
                     const T* from = grad + (i * padded + o) * inner;
                     T* row = to + source[static_cast<std::size_t>(o)] * inner;
                     for (std::int64_t j = 0; j < inner; ++j) row[j] += from[j];
                   }
                   for (std::int64_t j = 0; j < n * inner; ++j) to[j] = canonical(to[j]);
                 }
               });
}

}  // namespace

template <class T>
void bind_pad(py::module_& module) {
  module.def(
      "pad_backward",
      [](Address grad, Address result, std::int64_t outer, std::int64_t n, std::int64_t inner, const Sizes& source,
         int threads) { pad_backward(in<T>(grad), out<T>(result), outer, n, inner, source, threads); },
      py::call_guard<py::gil_scoped_release>());
}

template void bind_pad<float>(py::module_&);
template void bind_pad<double>(py::module_&);

}  // namespace repdl::cpu
