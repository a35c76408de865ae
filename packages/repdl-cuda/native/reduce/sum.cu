// out[outer] = the contract's sum over the reduced index (sum.md, grid_sum.hpp).
//
//   for each outer index:  (outer..., reduced...) -> (outer...)
//     out[outer] = sum of in[outer, reduced], reduced in row-major order
#include "reduce/grid_sum.hpp"
#include "repdl/shape/dimensions.hpp"

namespace repdl::cuda {
inline namespace sum_cu {

template <class T>
struct Element {
  const T* x;
  __device__ T operator()(const Shape<1>::Offsets& where) const { return x[where.at[0]]; }
};

template <class T>
struct Write {
  T* y;
  __device__ void operator()(std::int64_t output, T sum) const { y[output] = canonical(sum); }
};

template <class T>
void sum(const Tensor& input, Ints dim, bool, const Contract& contract, const Tensor& output, const ExecContext& exec) {
  const auto shape = [&](const Dimensions& of) { return Shape<1>(exec.op, of.size, {of.stride}); };
  grid_sum<T>(Element<T>{input.as<T>()}, Write<T>{output.as<T>()}, shape(Dimensions(input, dim, false)),
              shape(Dimensions(input, dim, true)), contract, exec);
}

const AddKernel sum_kernels = add_kernels<&sum<float>, &sum<double>>("sum");

}  // namespace sum_cu
}  // namespace repdl::cuda
