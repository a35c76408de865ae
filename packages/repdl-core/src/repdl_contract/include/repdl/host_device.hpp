// REPDL_HD marks functions that run on a GPU too.
#pragma once

#if defined(__CUDACC__)
#define REPDL_HD __host__ __device__
#else
#define REPDL_HD
#endif
