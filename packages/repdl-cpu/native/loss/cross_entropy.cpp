// The cross entropy of logits and class indices, and its gradient (cross_entropy.md).
//
//   for i < rows:  (rows, C), (rows) -> (rows) -> ()
//     e = exp(x[i, :] - max[i]), sum[i] = sum(e)
//     loss[i] = -(weight[t] * ((x[i, t] - max[i]) - log(sum[i]))) with t = target[i]
#include "loss/loss.hpp"
#include "repdl/exact/log.hpp"
#include "reduce/softmax.hpp"

namespace repdl::cpu {
namespace {

void cross_entropy(const ClassLoss& loss, const float* x, float* losses, float* out, float* total, float* max,
                   float* sum) {
  const std::int64_t classes = loss.classes;
  parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowExp row = exp_row(x + i * classes, classes, loss.contract, [](std::int64_t, auto, Vec) {});
      max[i] = row.max;
      sum[i] = canonical(row.sum);
    }
  });
  loss.forward([&](std::int64_t i) { return (x[i * classes + loss.target[i]] - max[i]) - exact::log(sum[i]); }, losses,
               out, total);
}

void cross_entropy_backward(const ClassLoss& loss, const float* grad, const float* x, const float* total,
                            const float* max, const float* sum, float* out) {
  const std::int64_t classes = loss.classes;
  parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* to = out + i * classes;
      if (!loss.counted(i)) {
        std::fill(to, to + classes, 0.0f);
        continue;
      }
      const float* from = x + i * classes;
      const float m = max[i], s = sum[i], g = loss.scale(grad, *total, i);
      row_loop(classes, [=](std::int64_t c, auto part) {
        const Vec p = exp(part.load(from + c) - Vec::set1(m)) / Vec::set1(s);
        part.store(to + c, canonical(p * Vec::set1(g)));
      });
      const std::int64_t t = loss.target[i];
      to[t] = canonical((exact::exp(from[t] - m) / s - 1.0f) * g);
    }
  });
}

}  // namespace

void bind_cross_entropy(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "cross_entropy",
      [](Address x, Address target, Address weight, Address losses, Address result, Address total, Address max,
         Address sum, const Sizes& sizes, std::int64_t ignore, int reduction, std::int64_t lanes, std::int64_t block,
         int threads) {
        cross_entropy(class_loss(target, weight, sizes, ignore, reduction, lanes, block, threads), in(x), out(losses),
                      out(result), out(total), out(max), out(sum));
      },
      release);
  module.def(
      "cross_entropy_backward",
      [](Address grad, Address x, Address target, Address weight, Address total, Address max, Address sum,
         Address result, const Sizes& sizes, std::int64_t ignore, int reduction, int threads) {
        cross_entropy_backward(class_loss(target, weight, sizes, ignore, reduction, 64, 1024, threads), in(grad), in(x),
                               in(total), in(max), in(sum), out(result));
      },
      release);
}

}  // namespace repdl::cpu
