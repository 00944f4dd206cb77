# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Users' projects with only CXX enabled take Cleave in: once installed (find_package, pkg_config), as a folder (add_subdirectory), and as
# a folder that CMake fetched (fetch_content). They are told nothing of Kokkos, Kokkos Kernels and MPI, wherever these came from.

# The compiler alone, and what this build itself was told by its user.
set(told "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
    "-DCMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH}")
list(TRANSFORM told REPLACE ";" "\\\\;")
list(JOIN told "\n" told)
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/install_told.txt" "${told}\n")

set(environment ${CLEAVE_RUN_ENVIRONMENT})
if(NOT "$ENV{CLEAVE_CACHE}" STREQUAL "")
  cleave_cache_dir(cache)
  list(APPEND environment "CLEAVE_CACHE=${cache}")
endif()
set(ways find_package add_subdirectory fetch_content)
find_program(CLEAVE_PKG_CONFIG pkg-config)
mark_as_advanced(CLEAVE_PKG_CONFIG)
if(CLEAVE_PKG_CONFIG)
  list(APPEND ways pkg_config)
else()
  cleave_left_out(pkg_config "the test install.pkg_config" "there is no pkg-config")
endif()
cleave_mpi_command(mpirun 2)
list(JOIN mpirun "|" mpirun)
foreach(way IN LISTS ways)
  add_test(NAME install.${way}
           COMMAND ${CMAKE_COMMAND} -DWAY=${way} "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DBUILD=${PROJECT_BINARY_DIR}"
                   "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/install_${way}" "-DGENERATOR=${CMAKE_GENERATOR}"
                   "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DTOLD=${CMAKE_CURRENT_BINARY_DIR}/install_told.txt" "-DVERSION=${PROJECT_VERSION}" "-DMPIRUN=${mpirun}"
                   -P "${CMAKE_CURRENT_LIST_DIR}/run.cmake")
  set_tests_properties(install.${way} PROPERTIES TIMEOUT 300 ENVIRONMENT "${environment}")
endforeach()
# It compiles six sources, two at a time; the others compile one.
set_tests_properties(install.find_package PROPERTIES PROCESSORS 2)

# With what this build found, in place of what Spack would build.
add_test(NAME install.spack_recipe
         COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/spack_recipe.py" --work "${CMAKE_CURRENT_BINARY_DIR}/install_spack_recipe"
                 --configure "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DKokkos_DIR=${Kokkos_DIR}"
                 "-DKokkosKernels_DIR=${KokkosKernels_DIR}" "-DMPI_CXX_COMPILER=${MPI_CXX_COMPILER}")
set_tests_properties(install.spack_recipe PROPERTIES TIMEOUT 300 ENVIRONMENT "${environment}")
