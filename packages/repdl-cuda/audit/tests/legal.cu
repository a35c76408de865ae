// Kernels that keep the contract, with everything in them that looks like a violation and is none.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

__global__ void divide(float* x) { x[0] = x[1] / x[2]; }
__global__ void reciprocal(float* x) { x[0] = 1.0f / x[1]; }
__global__ void root(float* x) { x[0] = sqrtf(x[1]); }
__global__ void root_of_quotient(float* x) { x[0] = __fmul_rn(sqrtf(x[1] / x[2]), 1.0f / x[3]); }
__global__ void divide_double(double* x) { x[0] = x[1] / x[2]; }
__global__ void root_double(double* x) { x[0] = 1.0 / sqrt(x[1]); }
__global__ void divide_unsigned(unsigned* x) {
  x[0] = x[1] / x[2];
  x[3] = x[1] % x[4];
}
__global__ void divide_int(int* x) { x[0] = x[1] / x[2]; }
__global__ void divide_long(long long* x) {
  x[0] = x[1] / x[2];
  x[3] = x[1] % x[4];
}
__global__ void constants(float* x, double* y) {
  x[threadIdx.x] = 0.00128841400146484375f;
  y[threadIdx.x] = 0x1.62e42fefa2p-1;
}
__global__ void halves(const __half* x, const __nv_bfloat16* y, float* z) {
  z[0] = __half2float(x[0]) + __bfloat162float(y[0]);
}
__global__ void to_half(const float* x, __half* y) { y[0] = __float2half_rn(x[0]); }
__global__ void count(int* x) {
  atomicAdd(x, 1);
  atomicMax(x + 1, 3);
}
__global__ void products(float* x, double* y) {
  x[0] = __fmaf_rn(x[1], x[2], x[3]) + __fmul_rn(x[4], x[5]);
  y[0] = __fma_rn(y[1], y[2], y[3]) - __dmul_rn(y[4], y[5]);
}
__global__ void clamp(float* x) { x[0] = x[1] < x[2] ? x[2] : x[1] > 40.0f ? 40.0f : x[1]; }
__global__ void clamp_to_number(float* x) {
  const float high = x[1] > 40.0f ? 40.0f : x[1];
  x[0] = high < -103.972084045410156f ? -103.972084045410156f : high;
}
__global__ void relu(float* x) { x[0] = x[1] < 0.0f ? 0.0f : x[1]; }
__global__ void convert(float* x, int* i, long long* n) {
  x[0] = static_cast<float>(i[0]);
  i[1] = static_cast<int>(x[1]);
  x[2] = static_cast<float>(n[0]);
}
__global__ void integers(int* x) { x[0] = x[1] * x[2] + min(x[3], x[4]); }
__global__ void fold(float* x) { x[0] += __shfl_down_sync(0xffffffffu, x[threadIdx.x], 16); }
