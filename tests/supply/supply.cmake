# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# supply_cross: as when cross compiling, where nothing can be run.
foreach(system "" cross)
  set(name supply.blas)
  set(options "")
  if(system)
    set(name supply.blas_cross)
    set(options "-DCMAKE_SYSTEM_NAME=${CMAKE_SYSTEM_NAME}" "-DCMAKE_SYSTEM_PROCESSOR=${CMAKE_SYSTEM_PROCESSOR}")
  endif()
  add_test(NAME ${name}
           COMMAND ${CMAKE_COMMAND} --fresh -S "${CMAKE_CURRENT_LIST_DIR}" -B "${CMAKE_CURRENT_BINARY_DIR}/${name}" -G "${CMAKE_GENERATOR}"
                   "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" ${options})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endforeach()

# One sentence each, which is wrapped at any place. CMake itself is a wrapper that compiles nothing.
add_test(NAME supply.unusable_mpi
         COMMAND ${CMAKE_COMMAND} --fresh -S "${CMAKE_CURRENT_LIST_DIR}/unusable_mpi" -B "${CMAKE_CURRENT_BINARY_DIR}/supply.unusable_mpi" -G "${CMAKE_GENERATOR}"
                 "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" "-DMPI_CXX_COMPILER=${CMAKE_COMMAND}")
add_test(NAME supply.unwritable_cache COMMAND ${CMAKE_COMMAND} -P "${CMAKE_CURRENT_LIST_DIR}/unwritable_cache.cmake")
set_tests_properties(supply.unusable_mpi PROPERTIES TIMEOUT 300 PASS_REGULAR_EXPRESSION "is[ \n]+installed,[ \n]+but[ \n]+no[ \n]+program[ \n]+of[ \n]+MPI.*Repair")
set_tests_properties(supply.unwritable_cache PROPERTIES PASS_REGULAR_EXPRESSION "cannot[ \n]+be[ \n]+written,.*CLEAVE_CACHE")
