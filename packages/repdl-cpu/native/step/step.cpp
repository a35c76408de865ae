// The loop around every optimizer's step, in place (repdl/step/steps.hpp).
//
//   for t in tensors, i < count[t]:
//     element(columns of t, i)
#include "base/routes.hpp"
#include "base/streams.hpp"
#include "repdl/step/steps.hpp"
#include "step/tensor_lists.hpp"

namespace repdl::cpu {
namespace {

struct StepLoop {
  template <class Step, class Element, class T>
  static void run(const Tensors* lists, const typename Step::Options& options, const ExecContext& exec) {
    constexpr std::int64_t grain = Element::columns < 4 ? 1 << 14 : 1 << 13;  // elements worth a thread
    std::vector<std::int64_t> counts;
    for (const Tensor& tensor : lists[0]) counts.push_back(tensor.count());
    for_elements(counts, grain, exec.threads, [&](std::size_t t, std::int64_t begin, std::int64_t end) {
      REPDL_ROUTE(Step::op, Element::variant, sizeof(T));
      // Options are rounded here, where the environment is IEEE's.
      const Element element(options);
      step::Columns<T, Element::columns> columns;
      for (int c = 0; c < Element::columns; ++c) columns.at[c] = lists[c][t].template as<T>() + begin;
      in_streams(end - begin, [=](std::int64_t i) { element(columns, i); });
    });
  }
};

const AddKernel step_kernels = step::add_steps<StepLoop>();

}  // namespace
}  // namespace repdl::cpu
