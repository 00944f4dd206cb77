# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Vecs of PETSc as tensors. Nobody installs PETSc for these tests. PETSc must be built with the MPI of this build, which its headers check.

include(CheckCXXSourceCompiles)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_search_module(CLEAVE_PETSC QUIET PETSc petsc)
endif()
set(CLEAVE_PETSC_WORKS OFF)
if(CLEAVE_PETSC_FOUND AND NOT CLEAVE_SANITIZE AND NOT Kokkos_ENABLE_CUDA AND NOT Kokkos_ENABLE_HIP AND NOT Kokkos_ENABLE_SYCL)
  set(CMAKE_REQUIRED_INCLUDES ${CLEAVE_PETSC_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX ${CLEAVE_PETSC_LINK_LIBRARIES})
  check_cxx_source_compiles("#include <petscdmda.h>\nint main() { return PetscInitializeNoArguments() != 0; }" CLEAVE_PETSC_LINKS)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  set(CLEAVE_PETSC_WORKS ${CLEAVE_PETSC_LINKS})
endif()
if(CLEAVE_PETSC_WORKS)
  # Without the compiler's options, which are those of the build of PETSc.
  add_library(cleave_with_petsc INTERFACE)
  target_include_directories(cleave_with_petsc SYSTEM INTERFACE ${CLEAVE_PETSC_INCLUDE_DIRS})
  target_link_libraries(cleave_with_petsc INTERFACE ${CLEAVE_PETSC_LINK_LIBRARIES})
  cleave_sources(sources petsc)
  cleave_add_program(cleave_petsc ${sources})
  target_link_libraries(cleave_petsc PRIVATE GTest::gtest cleave_with_petsc)
  foreach(ranks 1 2 3 4)
    cleave_add_mpi_test(petsc_${ranks} cleave_petsc ${ranks})
  endforeach()
else()
  cleave_left_out(petsc "the tests, the header and a code block of PETSc's vectors"
                  "no PETSc that is built with this MPI was found by pkg-config (Debian: petsc-dev), or this build is one with sanitizers or for a device")
endif()
