# The contract for native code: `target_link_libraries(... repdl::contract)` brings the
# headers, the floating-point flags that every kernel must be compiled with, and hidden symbols: a process
# loads several extension modules with the same inline functions, and each has its own.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" OR CMAKE_CXX_COMPILER_FRONTEND_VARIANT STREQUAL "MSVC")
  set(repdl_contract_FOUND FALSE)
  set(repdl_contract_NOT_FOUND_MESSAGE
    "The C++ compiler is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_FRONTEND_VARIANT}, expected GCC or Clang (not clang-cl): the contract holds with their flags only.")
  return()
endif()
if(NOT TARGET repdl::contract)
  add_library(repdl::contract INTERFACE IMPORTED)
  get_filename_component(_repdl_contract_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
  target_include_directories(repdl::contract INTERFACE "${_repdl_contract_root}/include")
  target_compile_features(repdl::contract INTERFACE cxx_std_17)
  target_link_libraries(repdl::contract INTERFACE ${CMAKE_DL_LIBS})  # repdl/python/torch_memory.hpp
  # -fno-math-errno and -fno-trapping-math change no result: they only let sqrt and
  # compares compile to single instructions. -fexcess-precision=standard and
  # -msse2 arithmetic are the default on every 64-bit target.
  target_compile_options(repdl::contract INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-fast-math;-fno-math-errno;-fno-trapping-math;-fvisibility=hidden>
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--prec-div=true;--prec-sqrt=true;--ftz=false;-Xcompiler=-ffp-contract=off;-Xcompiler=-fvisibility=hidden>)
endif()

# The extension module of the call cache; an entry point `repdl.call` names it. A project whose kernels run beside
# repdl-cpu or repdl-cuda needs none: the module of one of them repeats its calls too.
function(repdl_add_call_module name)
  Python_add_library(${name} MODULE WITH_SOABI "${repdl_contract_DIR}/../native/call_module.cpp")
  target_link_libraries(${name} PRIVATE repdl::contract)
endfunction()
