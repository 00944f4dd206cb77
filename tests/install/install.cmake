# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Users' projects with only CXX enabled take Cleave in, once installed (find_package) and once as a folder (add_subdirectory).

if(NOT EXISTS "${PROJECT_SOURCE_DIR}/include/cleave/cleave.hpp")
  message(STATUS "Cleave: no include/cleave/cleave.hpp, the install tests are skipped")
  return()
endif()

# What a user's project must be told in order to find what this build found.
set(found "-DKokkos_DIR=${Kokkos_DIR}" "-DKokkosKernels_DIR=${KokkosKernels_DIR}" "-DMPI_CXX_COMPILER=${MPI_CXX_COMPILER}"
    "-DMPIEXEC_EXECUTABLE=${MPIEXEC_EXECUTABLE}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
    "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}")
list(JOIN found "\n" found)
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/install_found.txt" "${found}\n")

foreach(way find_package add_subdirectory)
  add_test(NAME install.${way}
           COMMAND ${CMAKE_COMMAND} -DWAY=${way} "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DBUILD=${PROJECT_BINARY_DIR}"
                   "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/install_${way}" "-DGENERATOR=${CMAKE_GENERATOR}"
                   "-DFOUND=${CMAKE_CURRENT_BINARY_DIR}/install_found.txt" "-DVERSION=${PROJECT_VERSION}"
                   -P "${CMAKE_CURRENT_LIST_DIR}/run.cmake")
  set_tests_properties(install.${way} PROPERTIES TIMEOUT 300 ENVIRONMENT "${CLEAVE_RUN_ENVIRONMENT}")
endforeach()
