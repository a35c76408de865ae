// The negative log likelihood of class indices, and its gradient (nll_loss.md).
//
//   for i < N, j < inner:  (N, C, inner), (N, inner) -> (N, inner) -> ()
//     loss[i, j] = -(weight[t] * x[i, t, j]) with t = target[i, j]
#include "loss/loss.hpp"

namespace repdl::cpu {
namespace {

template <class T>
void nll_loss_backward(const ClassLossOf<T>& loss, const T* grad, const T* total, T* out) {
  const std::int64_t row = loss.classes * loss.inner;
  parallel_for(loss.n, std::max<std::int64_t>(1, (1 << 14) / (row + 1)), loss.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::fill(out + begin * row, out + end * row, T(0));
                 for (std::int64_t i = begin * loss.inner; i < end * loss.inner; ++i) {
                   if (!loss.counted(i)) continue;
                   T* to = out + i / loss.inner * row + i % loss.inner;
                   to[loss.target[i] * loss.inner] = canonical(-loss.scale(grad, *total, i));
                 }
               });
}

}  // namespace

template <class T>
void bind_nll_loss(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "nll_loss",
      [](Address x, Address target, Address weight, Address losses, Address result, Address total, const Sizes& sizes,
         std::int64_t ignore, int reduction, std::int64_t lanes, std::int64_t block, int threads) {
        const ClassLossOf<T> loss = class_loss<T>(target, weight, sizes, ignore, reduction, lanes, block, threads);
        const T* from = in<T>(x);
        loss.forward(
            [&](std::int64_t i) {
              return from[(i / loss.inner * loss.classes + loss.target[i]) * loss.inner + i % loss.inner];
            },
            out<T>(losses), out<T>(result), out<T>(total));
      },
      release);
  module.def(
      "nll_loss_backward",
      [](Address grad, Address target, Address weight, Address total, Address result, const Sizes& sizes,
         std::int64_t ignore, int reduction, int threads) {
        nll_loss_backward(class_loss<T>(target, weight, sizes, ignore, reduction, 64, 1024, threads), in<T>(grad),
                          in<T>(total), out<T>(result));
      },
      release);
}

template void bind_nll_loss<float>(py::module_&);
template void bind_nll_loss<double>(py::module_&);

}  // namespace repdl::cpu
