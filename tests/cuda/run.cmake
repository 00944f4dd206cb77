# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds EXAMPLES of the project in SOURCE for CUDA below WORK, as one source, of which all programs have the code. In each program there
# must be device code, and in the first the names by which the CUDA run time finds Cleave's kernels of all examples.

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed: ${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Kokkos for CUDA launches the compiler itself.
unset(ENV{CMAKE_CXX_COMPILER_LAUNCHER})
# Nothing runs, so what nvcc compiles for the host is not optimised: a quarter less time.
set(options -D CMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG" -D CLEAVE_BUILD_TESTS=OFF -D CLEAVE_BUILD_EXAMPLES=ON
            -D CLEAVE_BUILD_BENCH=OFF -D CLEAVE_CUDA=ON "-DCLEAVE_EXAMPLES=${EXAMPLES}" -D CLEAVE_EXAMPLE_BATCHES=1)
file(REMOVE_RECURSE "${WORK}")
run("configuring for CUDA" ${CMAKE_COMMAND} -S "${SOURCE}" -B "${WORK}" ${options})
run("building ${EXAMPLES} for CUDA" ${CMAKE_COMMAND} --build "${WORK}" --parallel 2)

string(REPLACE "," ";" examples "${EXAMPLES}")
foreach(example IN LISTS examples)
  set(program "${WORK}/examples/${example}")
  execute_process(COMMAND readelf --section-headers --wide "${program}" OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
  if(NOT sections MATCHES "\\.nv_fatbin")
    message(FATAL_ERROR "${program} has no device code")
  endif()
endforeach()
list(GET examples 0 example)
set(program "${WORK}/examples/${example}")
file(STRINGS "${program}" kernels REGEX "cuda_parallel_launch.*cleave")
list(LENGTH kernels count)
message("${example}: ${count} names of kernels of Cleave")
# Fields and their neighbours; sparse matrices, sums; look-ups and their gradients, products.
foreach(kernel map_flat box_functor multiply_vector fold_flat gather_on_device add_sorted small_gemm)
  if(NOT kernels MATCHES "${kernel}")
    message(FATAL_ERROR "${program} has no kernel ${kernel} of Cleave")
  endif()
endforeach()
