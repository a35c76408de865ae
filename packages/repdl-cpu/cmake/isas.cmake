# The ISA levels to build, of the processor that the compiler makes code for: not the host's, which
# differs in a cross build or with -arch.
include(CheckCXXSourceCompiles)

function(repdl_isas result)
  if(WIN32)
    message(FATAL_ERROR "repdl-cpu: Windows is not supported, expected Linux (WSL too) or macOS")
  endif()
  list(LENGTH CMAKE_OSX_ARCHITECTURES architectures)
  if(architectures GREATER 1)
    message(FATAL_ERROR "repdl-cpu: CMAKE_OSX_ARCHITECTURES is ${CMAKE_OSX_ARCHITECTURES}, expected one; "
                        "build a wheel for each")
  endif()
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # a target's libraries need not be here
  check_cxx_source_compiles("#if !defined(__x86_64__)\n#error\n#endif\n" REPDL_TARGET_IS_X86_64)
  set(isas baseline)
  if(REPDL_TARGET_IS_X86_64)
    list(APPEND isas avx2 avx512)
  endif()
  set(${result} ${isas} PARENT_SCOPE)
endfunction()
