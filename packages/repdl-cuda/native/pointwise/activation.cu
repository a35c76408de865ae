// silu, gelu and their derivatives (activation.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = value(x[i])  or  grad[i] * slope(x[i])
#include "base/launch.hpp"
#include "base/ops.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/tanh.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

constexpr float root_half = 0x1.6a09e6p-1f;  // sqrt(1/2)
constexpr float root_2_pi = 0x1.988454p-1f;  // sqrt(2 / pi)
constexpr float density_0 = 0x1.988454p-2f;  // 1 / sqrt(2 pi)
constexpr float cubic = 0.044715f, cubic_3 = 0.134145f;

struct Silu {
  __device__ static float value(float x) { return mul(x, exact::sigmoid(x)); }
  __device__ static float slope(float x) {
    const float s = exact::sigmoid(x);
    return mul(s, 1.0f + mul(x, 1.0f - s));
  }
};

// What the two forms of gelu share: t near -1 for very negative x, near 1 for very positive x.
__device__ float gelu_of(float x, float t) { return mul(mul(x, 0.5f), 1.0f + t); }
__device__ float half_up(float t) { return mul(0.5f, 1.0f + t); }

struct GeluNone {
  __device__ static float inner(float x) { return exact::erf(mul(x, root_half)); }
  __device__ static float value(float x) { return gelu_of(x, inner(x)); }
  __device__ static float slope(float x) {
    return half_up(inner(x)) + mul(x, mul(exact::exp(mul(mul(x, x), -0.5f)), density_0));
  }
};

struct GeluTanh {
  __device__ static float inner(float x) { return exact::tanh(mul(x + mul(mul(mul(x, x), x), cubic), root_2_pi)); }
  __device__ static float value(float x) { return gelu_of(x, inner(x)); }
  __device__ static float slope(float x) {
    const float t = inner(x), u = mul(1.0f + mul(mul(x, x), cubic_3), root_2_pi);
    return half_up(t) + mul(mul(mul(x, 0.5f), 1.0f - mul(t, t)), u);
  }
};

template <class A>
__global__ void __launch_bounds__(threads) values(const float* x, float* y, std::int64_t n) {
  const std::int64_t i = thread_index();
  if (i < n) y[i] = canonical(A::value(x[i]));
}

template <class A>
__global__ void __launch_bounds__(threads) gradients(const float* grad, const float* x, float* y, std::int64_t n) {
  const std::int64_t i = thread_index();
  if (i < n) y[i] = canonical(mul(grad[i], A::slope(x[i])));
}

}  // namespace

void gelu(Address x, Address y, std::int64_t n, const std::string& approximate, const Stream& stream) {
  launch("gelu", approximate == "tanh" ? values<GeluTanh> : values<GeluNone>, {ceil_div(n, threads)}, threads, 0,
         stream, in<float>(x), out<float>(y), n);
}

void gelu_backward(Address grad, Address x, Address y, std::int64_t n, const std::string& approximate,
                   const Stream& stream) {
  launch("gelu_backward", approximate == "tanh" ? gradients<GeluTanh> : gradients<GeluNone>, {ceil_div(n, threads)},
         threads, 0, stream, in<float>(grad), in<float>(x), out<float>(y), n);
}

void silu(Address x, Address y, std::int64_t n, const Stream& stream) {
  launch("silu", values<Silu>, {ceil_div(n, threads)}, threads, 0, stream, in<float>(x), out<float>(y), n);
}

void silu_backward(Address grad, Address x, Address y, std::int64_t n, const Stream& stream) {
  launch("silu_backward", gradients<Silu>, {ceil_div(n, threads)}, threads, 0, stream, in<float>(grad), in<float>(x),
         out<float>(y), n);
}

}  // namespace repdl::cuda
