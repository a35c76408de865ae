// out[i] = f(a[i], b[i], ...): the loop around every pointwise function (repdl/pointwise/functions.hpp).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(a[i], b[i], ...)
#include "base/rounded_on_host.hpp"
#include "pointwise/elements.hpp"
#include "repdl/pointwise/entry.hpp"

namespace repdl::cuda {
inline namespace pointwise_cu {

// An option as functions take it.
template <class F, class Option>
auto value_of(const Option& option) {
  if constexpr (std::is_same_v<Option, std::string_view>)
    return F::flag(option);
  else
    return option;
}

struct Loop {
  static constexpr Layout layout = Layout::in_place;

  template <template <class> class F, class T, std::size_t N, class... Options>
  static void run(const std::array<const Tensor*, N>& operands, const Tensor& output, const ExecContext& exec,
                  const Options&... options) {
    run_elements<T>(exec, operands, output, rounded_on_host<F<T>>(value_of<F<T>>(options)...));
  }
};

const AddKernel pointwise_kernels = pointwise::add_functions<Loop>(pointwise::Functions());

}  // namespace pointwise_cu
}  // namespace repdl::cuda
