# The ISA levels to build, of the processor that the compiler makes code for: not the host's, which
# differs in a cross build or with -arch, unless REPDL_CPU_ISAS is native.
include(CheckCXXSourceCompiles)

set(REPDL_CPU_SOURCES "${CMAKE_CURRENT_LIST_DIR}/..")

# The best level of the processor that builds.
function(repdl_best_isa result)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE EXECUTABLE)
  try_run(REPDL_BEST_ISA_STATUS REPDL_BEST_ISA_COMPILED
    "${CMAKE_BINARY_DIR}/best_isa" "${REPDL_CPU_SOURCES}/cmake/best_isa.cpp"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${REPDL_CPU_SOURCES}/native" RUN_OUTPUT_VARIABLE best)
  if(NOT REPDL_BEST_ISA_COMPILED OR NOT REPDL_BEST_ISA_STATUS EQUAL 0)
    message(FATAL_ERROR "repdl-cpu: REPDL_CPU_ISAS is native, but what this processor has can't be found out; "
                        "name a level")
  endif()
  set(${result} ${best} PARENT_SCOPE)
endfunction()

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
  set(REPDL_CPU_ISAS "${isas}" CACHE STRING "The ISA levels to build, of ${isas}, or native: this processor's best")
  if(REPDL_CPU_ISAS STREQUAL "native")
    repdl_best_isa(best)
    set(REPDL_CPU_ISAS ${best})
  endif()
  foreach(isa IN LISTS REPDL_CPU_ISAS)
    if(NOT isa IN_LIST isas)
      message(FATAL_ERROR "repdl-cpu: REPDL_CPU_ISAS is ${REPDL_CPU_ISAS}, expected some of ${isas}, or native alone")
    endif()
  endforeach()
  if(NOT REPDL_CPU_ISAS)
    message(FATAL_ERROR "repdl-cpu: REPDL_CPU_ISAS is empty, expected some of ${isas}")
  endif()
  set(${result} ${REPDL_CPU_ISAS} PARENT_SCOPE)
endfunction()
