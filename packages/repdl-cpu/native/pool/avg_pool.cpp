// The average of each window, and its gradient (avg_pool.md): sums over windows, divided by a number of each.
//
//   for p < outer, o < outputs, c < inner:  (outer, sides..., inner) -> (outer, outputs..., inner)
//     out[p, o, c] = (the sum of x[p, i, c] over starts[o] <= i < stops[o]) / by[o]
//     out[p, i, c] = the sum of grad[p, o, c] / by[o] over the o whose window has i, in row-major order
#include <vector>

#include "pool/window_sums.hpp"

namespace repdl::cpu {
namespace {

// What avg_pool and its gradient read of their integers, of `counts` windows on each side.
struct Windows {
  SideLists lists[most_sides];
  std::vector<std::int64_t> by{1};  // the product of the lengths of each window, in row-major order

  Windows(Ints starts, Ints stops, Ints lengths, const std::int64_t* counts, int sides) {
    std::size_t next = 0;
    for (int d = 0; d < most_sides - sides; ++d) lists[d] = SideLists::one();
    for (int d = 0; d < sides; ++d) {
      std::vector<std::int64_t> products;
      for (const std::int64_t product : by)
        for (std::int64_t o = 0; o < counts[d]; ++o) products.push_back(product * lengths[next + o]);
      by = products;
      for (std::int64_t o = 0; o < counts[d]; ++o, ++next) lists[most_sides - sides + d].add(starts[next], stops[next]);
    }
  }

  // Each rounded once, in the environment of parallel_for.
  template <class T>
  std::vector<T> divisors() const {
    std::vector<T> result(by.size());
    parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) { std::copy(by.begin(), by.end(), result.begin()); });
    return result;
  }
};

template <class T>
void avg_pool(const Tensor& input, Ints starts, Ints stops, Ints lengths, Ints size, const Contract& contract,
              const Tensor& output, const ExecContext& exec) {
  if (output.count() == 0) return;
  const Images out(output), in(input, out.inner > 1);
  const InForm form(input, out.inner > 1);
  const Windows windows(starts, stops, lengths, size.begin(), static_cast<int>(size.length));
  const auto& lists = windows.lists;
  const WindowSums<T> sums{in, out, {lists[0], lists[1], lists[2]}, {}, windows.divisors<T>(), contract};
  sums.run(form.template as<T>(), output.as<T>(), exec.threads);
}

template <class T>
void avg_pool_backward(const Tensor& grad, Ints starts, Ints stops, Ints lengths, Ints, const Contract& contract,
                       const Tensor& output, const ExecContext& exec) {
  if (output.count() == 0) return;
  const Images out(output), in(grad, out.inner > 1);
  const InForm form(grad, out.inner > 1);
  const Windows windows(starts, stops, lengths, grad.size + 2, grad.dims - 2);
  SideLists lists[most_sides];
  for (int d = 0; d < most_sides; ++d) lists[d] = windows.lists[d].inverse(out.side[d]);
  const WindowSums<T> sums{in, out, {lists[0], lists[1], lists[2]}, windows.divisors<T>(), {}, contract};
  sums.run(form.template as<T>(), output.as<T>(), exec.threads);
}

const AddKernel avg_pool_kernels = add_kernels<&avg_pool<float>, &avg_pool<double>>("avg_pool");
const AddKernel avg_pool_backward_kernels =
    add_kernels<&avg_pool_backward<float>, &avg_pool_backward<double>>("avg_pool_backward");

}  // namespace
}  // namespace repdl::cpu
