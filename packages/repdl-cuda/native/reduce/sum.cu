// out[kept] = the contract's sum over the reduced index (sum.md, grid_sum.hpp).
//
//   for each kept index:  (kept..., reduced...) -> (kept...)
//     out[kept] = sum of in[kept, reduced], reduced in row-major order
#include "reduce/grid_sum.hpp"
#include "base/ops.hpp"

namespace repdl::cuda {
namespace {

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

}  // namespace

std::int64_t sum_work(std::int64_t kept, std::int64_t reduced, std::int64_t block) {
  return grid_sum_work(kept, reduced, block);
}

template <class T>
void sum(Address x, Address y, Address work, const Sizes& kept_size, const Sizes& kept_stride,
         const Sizes& reduced_size, const Sizes& reduced_stride, std::int64_t lanes, std::int64_t block,
         const Stream& stream) {
  const Shape<1> kept("sum", kept_size, {kept_stride}), reduced("sum", reduced_size, {reduced_stride});
  grid_sum<T>("sum", Element<T>{in<T>(x)}, Write<T>{out<T>(y)}, work, kept, reduced, lanes, block, stream);
}

template void sum<float>(Address, Address, Address, const Sizes&, const Sizes&, const Sizes&, const Sizes&,
                         std::int64_t, std::int64_t, const Stream&);
template void sum<double>(Address, Address, Address, const Sizes&, const Sizes&, const Sizes&, const Sizes&,
                          std::int64_t, std::int64_t, const Stream&);

}  // namespace repdl::cuda
