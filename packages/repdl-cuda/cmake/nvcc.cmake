# Where no CUDA toolkit is installed: nvcc from the PyPI packages that pyproject.toml names.
#
# They share the folder nvidia/cu13 of the environment of the build. Nothing is set where
# CMake finds a toolkit by itself (CUDACXX, CMAKE_CUDA_COMPILER, nvcc on the path).
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import nvidia.cu13 as cu13; print(*cu13.__path__, sep=';')"
    OUTPUT_VARIABLE REPDL_CU13 OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_program(REPDL_NVCC nvcc PATHS ${REPDL_CU13} PATH_SUFFIXES bin NO_DEFAULT_PATH)
  if(NOT REPDL_NVCC)
    message(FATAL_ERROR
      "no CUDA compiler: install a toolkit (12.4 or later), build with pip's build isolation, which "
      "brings nvcc from PyPI, or leave the GPU out with -Ccmake.define.REPDL_CUDA_DEVICE=OFF")
  endif()
  get_filename_component(CUDAToolkit_ROOT "${REPDL_NVCC}/../.." ABSOLUTE)
  # nvcc's own configuration names lib64, the packages have lib.
  set(ENV{LIBRARY_PATH} "${CUDAToolkit_ROOT}/lib:$ENV{LIBRARY_PATH}")
  set(CMAKE_CUDA_COMPILER "${REPDL_NVCC}")
endif()
execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --version OUTPUT_VARIABLE REPDL_NVCC_VERSION ERROR_QUIET)
string(REGEX MATCH "release ([0-9.]+)" REPDL_NVCC_VERSION "${REPDL_NVCC_VERSION}")
set(REPDL_NVCC_VERSION "${CMAKE_MATCH_1}")
if(REPDL_NVCC_VERSION VERSION_LESS 12.4)
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is of CUDA ${REPDL_NVCC_VERSION}, expected 12.4 or later")
endif()

# nvcc's compiler of kernels sorts by addresses somewhere: where the system places memory at random, names of registers
# in PTX differ between two builds. Memory at fixed addresses, where setarch may ask for it, gives the same bytes.
find_program(REPDL_SETARCH setarch)
if(REPDL_SETARCH AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(REPDL_AT_FIXED_ADDRESSES "${REPDL_SETARCH}" "${CMAKE_HOST_SYSTEM_PROCESSOR}" --addr-no-randomize)
  execute_process(COMMAND ${REPDL_AT_FIXED_ADDRESSES} true RESULT_VARIABLE REPDL_SETARCH_FAILED ERROR_QUIET)
  if(NOT REPDL_SETARCH_FAILED)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${REPDL_AT_FIXED_ADDRESSES})
  endif()
endif()
