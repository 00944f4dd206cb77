# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# nvcc behind Kokkos' nvcc_wrapper or compiler launcher looks like its host compiler to CMake, so that no generator
# expression can tell: whether it is there depends on the Kokkos that was found. Installed next to CleaveConfig.cmake.

function(cleave_nvcc_limits target)
  if(Kokkos_ENABLE_CUDA AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_property(TARGET ${target} APPEND PROPERTY
                 INTERFACE_COMPILE_OPTIONS
                 "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xcudafe --max_cost_constexpr_call=100000000>>")
  endif()
endfunction()
