// The negative log likelihood of class indices, and its gradient (nll_loss.md).
//
//   for i < N, j < inner:  (N, C, inner), (N, inner) -> (N, inner) -> ()
//     loss[i, j] = -(weight[t] * x[i, t, j]) with t = target[i, j]
#include "loss.hpp"

namespace repdl::cpu {
namespace {

void nll_loss_backward(const ClassLoss& loss, const float* grad, const float* total, float* out) {
  const std::int64_t row = loss.classes * loss.inner;
  parallel_for(loss.n, std::max<std::int64_t>(1, (1 << 14) / (row + 1)), loss.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::fill(out + begin * row, out + end * row, 0.0f);
                 for (std::int64_t i = begin * loss.inner; i < end * loss.inner; ++i) {
                   if (!loss.counted(i)) continue;
                   float* to = out + i / loss.inner * row + i % loss.inner;
                   to[loss.target[i] * loss.inner] = canonical(-loss.scale(grad, *total, i));
                 }
               });
}

}  // namespace

void bind_nll_loss(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "nll_loss",
      [](Address x, Address target, Address weight, Address losses, Address result, Address total,
         const Sizes& sizes, std::int64_t ignore, int reduction, std::int64_t lanes, std::int64_t block, int threads) {
        const ClassLoss loss = class_loss(target, weight, sizes, ignore, reduction, lanes, block, threads);
        const float* from = in(x);
        loss.forward(
            [&](std::int64_t i) {
              return from[(i / loss.inner * loss.classes + loss.target[i]) * loss.inner + i % loss.inner];
            },
            out(losses), out(result), out(total));
      },
      release);
  module.def(
      "nll_loss_backward",
      [](Address grad, Address target, Address weight, Address total, Address result, const Sizes& sizes,
         std::int64_t ignore, int reduction, int threads) {
        nll_loss_backward(class_loss(target, weight, sizes, ignore, reduction, 64, 1024, threads), in(grad),
                          in(total), out(result));
      },
      release);
}

}  // namespace repdl::cpu
