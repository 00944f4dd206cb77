# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Every header compiles alone, and twice in a row. Those of the rooms that see the standard library only are compiled with
# Cleave::core, so that an include of Kokkos or MPI in them is an error.

set(core_rooms base mesh layout type graph ops record cost program rules autodiff expr propagate plan simulate nn optim solve stencil)
# Of these rooms, what makes tensors.
set(with_tensors cleave/nn/parameters.hpp)

file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/include/cleave/*.hpp")
if(NOT TARGET Cleave::fft)
  list(FILTER headers EXCLUDE REGEX "^cleave/linalg/fft(_blocks|_kernels)?\\.hpp$")
endif()
if(NOT TARGET Cleave::hdf5)
  list(FILTER headers EXCLUDE REGEX "^cleave/io/(field_file|hdf5)\\.hpp$")
endif()
if(NOT CLEAVE_KOKKOS_SPMV)
  list(FILTER headers EXCLUDE REGEX "^cleave/sparse/kokkos_sparse\\.hpp$")
endif()
# The tests of PETSc compile it, where PETSc is found.
list(FILTER headers EXCLUDE REGEX "^cleave/interop/petsc\\.hpp$")
set(cleave_all_headers "${headers}")
set(core_sources "")
set(runtime_sources "")
foreach(header IN LISTS headers)
  string(REGEX REPLACE "\\.hpp$" ".cpp" source "${CMAKE_CURRENT_BINARY_DIR}/headers/${header}")
  file(CONFIGURE OUTPUT "${source}" CONTENT "#include <${header}>\n#include <${header}>\n")
  string(REGEX MATCH "^cleave/([a-z_]+)/" room "${header}")
  if((CMAKE_MATCH_1 IN_LIST core_rooms AND NOT header IN_LIST with_tensors) OR header STREQUAL "cleave/version.hpp")
    list(APPEND core_sources "${source}")
  else()
    list(APPEND runtime_sources "${source}")
  endif()
endforeach()

foreach(part core runtime)
  if(${part}_sources)
    set(target cleave_headers)
    set(link Cleave::Cleave $<TARGET_NAME_IF_EXISTS:Cleave::fft> $<TARGET_NAME_IF_EXISTS:Cleave::hdf5>)
    if(part STREQUAL "core")
      set(target cleave_core_headers)
      set(link Cleave::core)
    endif()
    add_library(${target} OBJECT ${${part}_sources})
    target_link_libraries(${target} PRIVATE ${link} cleave_own)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endforeach()
