# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Stands for CMake's own FindBLAS in the build of Kokkos Kernels, which thus gets the BLAS that supply_blas.cmake chose and no other:
# the libraries of CLEAVE_BLAS_LIBRARIES, separated by bars.

string(REPLACE "|" ";" BLAS_LIBRARIES "${CLEAVE_BLAS_LIBRARIES}")
set(BLAS_FOUND TRUE)
if(NOT TARGET BLAS::BLAS)
  add_library(BLAS::BLAS INTERFACE IMPORTED)
  set_target_properties(BLAS::BLAS PROPERTIES INTERFACE_LINK_LIBRARIES "${BLAS_LIBRARIES}")
endif()
