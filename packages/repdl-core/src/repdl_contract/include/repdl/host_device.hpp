// REPDL_HD marks functions that run on a GPU too, REPDL_HD_INLINE those that are always inlined: what a
// caller keeps in registers stays there. REPDL_HD_APART are never inlined: for what is seldom called.
#pragma once

#if defined(__CUDACC__)
#define REPDL_HD __host__ __device__
#define REPDL_HD_INLINE __host__ __device__ __forceinline__
#define REPDL_HD_APART __host__ __device__ __noinline__
#else
#define REPDL_HD
#define REPDL_HD_INLINE inline __attribute__((always_inline))
#define REPDL_HD_APART __attribute__((noinline))
#endif
