// One violation a kernel.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

__global__ void exponential(float* x) { x[0] = __expf(x[1]); }
__global__ void logarithm(float* x) { x[0] = __logf(x[1]); }
__global__ void sine(float* x) { x[0] = __sinf(x[1]); }
__global__ void reciprocal_root(float* x) { x[0] = rsqrtf(x[1]); }
__global__ void quotient(float* x) { x[0] = __fdividef(x[1], x[2]); }
__global__ void power_of_two(float* x) { x[0] = exp2f(x[1]); }
__global__ void atomic_float(float* x) { atomicAdd(x, x[1]); }
__global__ void atomic_double(double* x) { x[2] = atomicAdd(x, x[1]); }
__global__ void atomic_shared(float* x) {
  __shared__ float sum;
  sum = 0.0f;
  __syncthreads();
  atomicAdd(&sum, x[threadIdx.x]);
  __syncthreads();
  x[0] = sum;
}
__global__ void half_sum(__half* x) { x[0] = x[1] + x[2]; }
__global__ void bfloat_fma(__nv_bfloat162* x) { x[0] = __hfma2(x[1], x[2], x[3]); }
__global__ void tensor_cores(const __half* a, const __half* b, float* c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, __half, row_major> left;
  fragment<matrix_b, 16, 16, 16, __half, col_major> right;
  fragment<accumulator, 16, 16, 16, float> sum;
  fill_fragment(sum, 0.0f);
  load_matrix_sync(left, a, 16);
  load_matrix_sync(right, b, 16);
  mma_sync(sum, left, right, sum);
  store_matrix_sync(c, sum, 16, mem_row_major);
}
__global__ void largest(float* x) { x[0] = fmaxf(x[1], x[2]); }
__global__ void at_most(float* x) { x[0] = fminf(x[1], 40.0f); }
__global__ void not_negative(float* x) { x[0] = fmaxf(x[1], 0.0f); }
__global__ void larger_or_nan(float* x) { asm("max.NaN.f32 %0, %1, %2;" : "=f"(x[0]) : "f"(x[1]), "f"(x[2])); }
__global__ void rounded_down(float* x) { x[0] = __fadd_rd(x[1], x[2]); }
__global__ void flushed(float* x) { asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(x[0]) : "f"(x[1]), "f"(x[2])); }
__global__ void bare_sum(float* x) { asm("add.f32 %0, %1, %2;" : "=f"(x[0]) : "f"(x[1]), "f"(x[2])); }
__global__ void bare_product(double* x) { asm("mul.f64 %0, %1, %2;" : "=d"(x[0]) : "d"(x[1]), "d"(x[2])); }
__global__ void second_in_a_line(float* x) {
  asm("{.reg .f32 p; mul.rn.f32 p, %1, %2; add.ftz.f32 %0, p, %1;}" : "=f"(x[0]) : "f"(x[1]), "f"(x[2]));
}
