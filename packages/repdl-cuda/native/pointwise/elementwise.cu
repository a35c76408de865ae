// out[i] = f(input[i]) or f(input[i], other[i]), each f one rounding (elementwise.md).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(input[i], other[i])
#include <map>

#include "base/launch.hpp"
#include "base/ops.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/cos.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/exp2.hpp"
#include "repdl/exact/expm1.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/log10.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/log2.hpp"
#include "repdl/exact/pow.hpp"
#include "repdl/exact/rsqrt.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/sin.hpp"
#include "repdl/exact/tanh.hpp"
#include "base/strides.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

template <class T, int N>
struct Operands {
  const T* at[N];
};

// f of element i, which lies at offset[k] in operand k.
template <class T, class F>
__device__ T apply(F f, const Operands<T, 1>& x, const std::int64_t (&offset)[1]) {
  return canonical(f(x.at[0][offset[0]]));
}
template <class T, class F>
__device__ T apply(F f, const Operands<T, 2>& x, const std::int64_t (&offset)[2]) {
  return canonical(f(x.at[0][offset[0]], x.at[1][offset[1]]));
}
template <class T, class F>
__device__ T apply(F f, const Operands<T, 3>& x, const std::int64_t (&offset)[3]) {
  return canonical(f(x.at[0][offset[0]], x.at[1][offset[1]], x.at[2][offset[2]]));
}

// A correctly rounded function of core's headers.
template <float (*f)(float)>
struct Exact {
  __device__ float operator()(float x) const { return f(x); }
};

// Elements a thread: several loads on their way keep the memory busy, unless f is long.
template <bool Flat, class F>
constexpr int each = Flat ? 4 : 1;
template <bool Flat, float (*f)(float)>
constexpr int each<Flat, Exact<f>> = 1;

// Flat: one stride an operand, no division.
template <bool Flat, class T, int N, class F>
__global__ void __launch_bounds__(threads) elements(F f, Operands<T, N> x, T* y, Shape<N> shape) {
  constexpr int count = each<Flat, F>;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * count + threadIdx.x;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t i = first + j * threads;
    if (i >= shape.count) return;
    typename Shape<N>::Offsets offsets;
    if constexpr (Flat)
      for (int k = 0; k < N; ++k) offsets.at[k] = i * shape.inner(k);
    else
      offsets = shape.offsets(i);
    y[i] = apply(f, x, offsets.at);
  }
}

template <class T>
using Pass = void (*)(const char* op, const std::vector<Address>& x, Address y, const Sizes& size,
                      const std::vector<Sizes>& stride, const Stream& stream);

template <class T, int N, class F>
void pass(const char* op, const std::vector<Address>& x, Address y, const Sizes& size, const std::vector<Sizes>& stride,
          const Stream& stream) {
  Operands<T, N> operands;
  std::array<Sizes, N> strides;
  for (int k = 0; k < N; ++k) {
    operands.at[k] = in<T>(x.at(k));
    strides[k] = stride.at(k);
  }
  const Shape<N> shape(op, size, strides);
  const auto kernel = shape.flat() ? elements<true, T, N, F> : elements<false, T, N, F>;
  const int a_block = threads * (shape.flat() ? each<true, F> : each<false, F>);
  launch(op, kernel, {ceil_div(shape.count, a_block)}, threads, 0, stream, F(), operands, out<T>(y), shape);
}

template <class T>
struct Abs {
  __device__ T operator()(T x) const { return std::fabs(x); }
};
template <class T>
struct Canonical {
  __device__ T operator()(T x) const { return x; }
};
template <class T>
struct Neg {
  __device__ T operator()(T x) const { return -x; }
};
template <class T>
struct Reciprocal {
  __device__ T operator()(T x) const { return T(1) / x; }
};
template <class T>
struct Relu {
  __device__ T operator()(T x) const { return x < T(0) ? T(0) : x; }
};
template <class T>
struct Sign {
  __device__ T operator()(T x) const { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
};
template <class T>
struct Sqrt {
  __device__ T operator()(T x) const { return std::sqrt(x); }
};
template <class T>
struct Square {
  __device__ T operator()(T x) const { return mul(x, x); }
};
template <class T>
struct Add {
  __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct Sub {
  __device__ T operator()(T a, T b) const { return a - b; }
};
template <class T>
struct Mul {
  __device__ T operator()(T a, T b) const { return mul(a, b); }
};
template <class T>
struct Div {
  __device__ T operator()(T a, T b) const { return a / b; }
};
template <class T>
struct Maximum {
  __device__ T operator()(T a, T b) const { return a < b || b != b ? b : a; }
};
template <class T>
struct Minimum {
  __device__ T operator()(T a, T b) const { return a > b || b != b ? b : a; }
};
template <class T>
struct ReluBackward {
  __device__ T operator()(T grad, T y) const { return y <= T(0) ? T(0) : grad; }
};
template <class T>
struct MaximumBackward {
  __device__ T operator()(T grad, T a, T b) const { return a < b ? T(0) : a == b ? mul(grad, T(0.5)) : grad; }
};

struct Power {
  __device__ float operator()(float x, float e) const { return exact::pow(x, e); }
};
template <bool Flat>
constexpr int each<Flat, Power> = 1;

template <class T>
const std::map<std::string, Pass<T>>& passes() {
  static const std::map<std::string, Pass<T>> table = [] {
    std::map<std::string, Pass<T>> result = {
        {"abs", pass<T, 1, Abs<T>>},
        {"add", pass<T, 2, Add<T>>},
        {"canonical", pass<T, 1, Canonical<T>>},  // for ops that copy elements
        {"div", pass<T, 2, Div<T>>},
        {"maximum", pass<T, 2, Maximum<T>>},
        {"maximum_backward", pass<T, 3, MaximumBackward<T>>},
        {"minimum", pass<T, 2, Minimum<T>>},
        {"mul", pass<T, 2, Mul<T>>},
        {"neg", pass<T, 1, Neg<T>>},
        {"reciprocal", pass<T, 1, Reciprocal<T>>},
        {"relu", pass<T, 1, Relu<T>>},
        {"relu_backward", pass<T, 2, ReluBackward<T>>},
        {"sign", pass<T, 1, Sign<T>>},
        {"sqrt", pass<T, 1, Sqrt<T>>},
        {"square", pass<T, 1, Square<T>>},
        {"sub", pass<T, 2, Sub<T>>},
    };
    if constexpr (sizeof(T) == sizeof(float))
      result.insert({
          {"cos", pass<T, 1, Exact<exact::cos>>},
          {"erf", pass<T, 1, Exact<exact::erf>>},
          {"exp", pass<T, 1, Exact<exact::exp>>},
          {"exp2", pass<T, 1, Exact<exact::exp2>>},
          {"expm1", pass<T, 1, Exact<exact::expm1>>},
          {"log", pass<T, 1, Exact<exact::log>>},
          {"log10", pass<T, 1, Exact<exact::log10>>},
          {"log1p", pass<T, 1, Exact<exact::log1p>>},
          {"log2", pass<T, 1, Exact<exact::log2>>},
          {"pow_tensor", pass<T, 2, Power>},
          {"rsqrt", pass<T, 1, Exact<exact::rsqrt>>},
          {"sigmoid", pass<T, 1, Exact<exact::sigmoid>>},
          {"sin", pass<T, 1, Exact<exact::sin>>},
          {"tanh", pass<T, 1, Exact<exact::tanh>>},
      });
    return result;
  }();
  return table;
}

}  // namespace

template <class T>
void elementwise(const std::string& op, const std::vector<Address>& x, Address y, const Sizes& size,
                 const std::vector<Sizes>& stride, const Stream& stream) {
  passes<T>().at(op)(op.c_str(), x, y, size, stride, stream);
}

template void elementwise<float>(const std::string&, const std::vector<Address>&, Address, const Sizes&,
                                 const std::vector<Sizes>&, const Stream&);
template void elementwise<double>(const std::string&, const std::vector<Address>&, Address, const Sizes&,
                                  const std::vector<Sizes>&, const Stream&);

}  // namespace repdl::cuda
