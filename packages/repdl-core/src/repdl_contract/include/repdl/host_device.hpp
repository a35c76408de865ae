// REPDL_HD marks functions that run on a GPU too, REPDL_HD_INLINE those that are always inlined: what a
// caller keeps in registers stays there.
#pragma once

#if defined(__CUDACC__)
#define REPDL_HD __host__ __device__
#define REPDL_HD_INLINE __host__ __device__ __forceinline__
#else
#define REPDL_HD
#define REPDL_HD_INLINE inline __attribute__((always_inline))
#endif
