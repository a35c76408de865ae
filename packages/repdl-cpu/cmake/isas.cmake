# The ISA levels to build, of the processor that the compiler makes code for: not the host's, which
# differs in a cross build or with -arch. REPDL_CPU_ISAS is a list of levels, where native stands for
# the best one of the processor that builds, or `all`. Unless told otherwise, a build is for this
# processor, with the baseline for the others; a cross build has all.
include(CheckCXXSourceCompiles)

set(REPDL_CPU_SOURCES "${CMAKE_CURRENT_LIST_DIR}/..")

# The best level of the processor that builds.
function(repdl_best_isa result)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE EXECUTABLE)
  try_run(REPDL_BEST_ISA_STATUS REPDL_BEST_ISA_COMPILED
    "${CMAKE_BINARY_DIR}/best_isa" "${REPDL_CPU_SOURCES}/cmake/best_isa.cpp"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${REPDL_CPU_SOURCES}/native" RUN_OUTPUT_VARIABLE best)
  if(NOT REPDL_BEST_ISA_COMPILED OR NOT REPDL_BEST_ISA_STATUS EQUAL 0)
    message(FATAL_ERROR "repdl-cpu: REPDL_CPU_ISAS has native, but what this processor has can't be found out; "
                        "name levels, or all")
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
  if(CMAKE_CROSSCOMPILING)
    set(wanted all)
  else()
    set(wanted baseline native)
  endif()
  set(REPDL_CPU_ISAS "${wanted}" CACHE STRING "The ISA levels to build, of ${isas}, native (this processor's best), or all")
  set(wanted ${REPDL_CPU_ISAS})
  if(wanted STREQUAL "all")
    set(wanted ${isas})
  endif()
  if(isas STREQUAL "baseline")
    list(TRANSFORM wanted REPLACE "^native$" baseline)
  elseif("native" IN_LIST wanted)
    repdl_best_isa(best)
    list(TRANSFORM wanted REPLACE "^native$" ${best})
  endif()
  list(REMOVE_DUPLICATES wanted)
  foreach(isa IN LISTS wanted)
    if(NOT isa IN_LIST isas)
      message(FATAL_ERROR "repdl-cpu: REPDL_CPU_ISAS is ${REPDL_CPU_ISAS}, expected some of ${isas};native, or all")
    endif()
  endforeach()
  if(NOT wanted)
    message(FATAL_ERROR "repdl-cpu: REPDL_CPU_ISAS is empty, expected some of ${isas};native, or all")
  endif()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()
