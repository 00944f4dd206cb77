# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The marked code blocks of README.md and docs/*.md must compile.

file(GLOB documents CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/docs/*.md")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${documents} "${CMAKE_CURRENT_LIST_DIR}/extract.py"
             "${CMAKE_CURRENT_LIST_DIR}/chains.py")

execute_process(COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/extract.py" --into "${CMAKE_CURRENT_BINARY_DIR}/readme"
                        ${documents} OUTPUT_VARIABLE sources RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "Cleave: tests/readme/extract.py failed.")
endif()
string(REGEX MATCHALL "[^\n]+" sources "${sources}")
if(NOT sources)
  message(FATAL_ERROR "Cleave: no code block of README.md and docs/*.md is marked as a snippet.")
endif()
if(NOT TARGET Cleave::fft)
  list(FILTER sources EXCLUDE REGEX "_fft\\.cpp$")
endif()
if(NOT TARGET Cleave::hdf5)
  list(FILTER sources EXCLUDE REGEX "_field_file\\.cpp$")
endif()
if(NOT CLEAVE_KOKKOS_SPMV)
  list(FILTER sources EXCLUDE REGEX "_kokkos_sparse\\.cpp$")
endif()
set(of_petsc ${sources})
list(FILTER of_petsc INCLUDE REGEX "_petsc\\.cpp$")
list(FILTER sources EXCLUDE REGEX "_petsc\\.cpp$")
if(CLEAVE_PETSC_WORKS)
  add_library(cleave_readme_petsc OBJECT ${of_petsc})
  target_link_libraries(cleave_readme_petsc PRIVATE Cleave::Cleave cleave_with_petsc cleave_own)
  cleave_use_precompiled(cleave_readme_petsc)
  cleave_read_only(cleave_readme_petsc)
endif()
# Several blocks in each source; chains.py says how.
execute_process(COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/chains.py" --include "${PROJECT_SOURCE_DIR}/include"
                        --into "${CMAKE_CURRENT_BINARY_DIR}/readme/chains" ${sources} OUTPUT_VARIABLE sources COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" sources "${sources}")
add_library(cleave_readme OBJECT ${sources})
target_link_libraries(cleave_readme PRIVATE Cleave::Cleave $<TARGET_NAME_IF_EXISTS:Cleave::fft>
                      $<TARGET_NAME_IF_EXISTS:Cleave::hdf5> cleave_own)
cleave_use_precompiled(cleave_readme)
cleave_read_only(cleave_readme)
