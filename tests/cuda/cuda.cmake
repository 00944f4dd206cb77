# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The test `cuda` configures the project a second time, for CUDA, and builds some examples with device code. It needs nvcc and no GPU,
# and runs nothing. The examples are chosen so that each of these is compiled for a device: fields and their stencils, sparse matrices and
# iterative methods, maps, reductions, products, gradients, look-ups. `bench/gpu.py --only-build` compiles everything.

find_program(CLEAVE_NVCC nvcc PATHS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_ROOT}/bin" /usr/local/cuda/bin)
mark_as_advanced(CLEAVE_NVCC)
if(NOT CLEAVE_NVCC)
  cleave_left_out(cuda "the test that compiles examples for CUDA" "nvcc was not found: install the CUDA toolkit")
elseif(Kokkos_ENABLE_CUDA OR CLEAVE_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # This build is for CUDA itself, or another one is where the test belongs.
else()
  add_test(NAME cuda COMMAND ${CMAKE_COMMAND} -D "SOURCE=${PROJECT_SOURCE_DIR}" -D "WORK=${CMAKE_CURRENT_BINARY_DIR}/cuda"
                             -D "EXAMPLES=matrix_solve,shallow_water,embedding_bag"
                             -P "${CMAKE_CURRENT_SOURCE_DIR}/cuda/run.cmake")
  # It uses one core for minutes, so it begins first, beside all short tests.
  set_tests_properties(cuda PROPERTIES TIMEOUT 2400 COST 1000)
endif()
