# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Every header compiles alone, and a second time after that; headers.py says how one source proves that of many headers. Those of the
# rooms that see the standard library only are compiled with Cleave::core, so that an include of Kokkos or MPI in them is an error. The
# others take twice as long, most of it for Kokkos and MPI. So those that the documents do not name get them from the precompiled header;
# the test `rooms` sees where one does not include them. The preset debug compiles all of them alone.
option(CLEAVE_HEADERS_ALONE "Compile each header without a precompiled header" OFF)

set(core_rooms base mesh layout type graph ops record cost program rules autodiff expr propagate plan study simulate files show nn optim solve stencil)
# Of these rooms, what makes tensors.
set(with_tensors cleave/nn/initial_values.hpp cleave/nn/parameters.hpp)

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
set(documented "")
file(GLOB documents CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/docs/*.md")
foreach(document IN LISTS documents)
  file(STRINGS "${document}" lines REGEX "^#include <cleave/")
  list(APPEND documented ${lines})
endforeach()
set(core_headers "")
set(runtime_headers "")
set(inner_headers "")
foreach(header IN LISTS headers)
  string(REGEX MATCH "^cleave/([a-z_]+)/" room "${header}")
  if((CMAKE_MATCH_1 IN_LIST core_rooms AND NOT header IN_LIST with_tensors) OR header STREQUAL "cleave/version.hpp")
    list(APPEND core_headers "${header}")
  elseif("#include <${header}>" IN_LIST documented OR CLEAVE_HEADERS_ALONE)
    list(APPEND runtime_headers "${header}")
  else()
    list(APPEND inner_headers "${header}")
  endif()
endforeach()

foreach(part core runtime inner)
  if(${part}_headers)
    execute_process(COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/headers.py" --include "${PROJECT_SOURCE_DIR}/include"
                            --into "${CMAKE_CURRENT_BINARY_DIR}/headers" ${${part}_headers}
                    OUTPUT_VARIABLE sources COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[^\n]+" sources "${sources}")
    set(target cleave_${part}_headers)
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target} PRIVATE cleave_own)
    cleave_read_only(${target})
    if(part STREQUAL "core")
      target_link_libraries(${target} PRIVATE Cleave::core)
    else()
      target_link_libraries(${target} PRIVATE Cleave::Cleave $<TARGET_NAME_IF_EXISTS:Cleave::fft> $<TARGET_NAME_IF_EXISTS:Cleave::hdf5>)
    endif()
    if(part STREQUAL "inner")
      target_precompile_headers(${target} PRIVATE ${cleave_precompiled_headers})
    else()
      target_compile_options(${target} PRIVATE -O0)
    endif()
  endif()
endforeach()

# A flag that the library needs and lacks is one error, whichever header comes first; g++ prints a second line, because it ends there.
function(cleave_lacking name says)
  add_test(NAME headers.lack_${name}
           COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/expect.py" --exit fault "--says=error: .*${says}" --lines 16 -- ${CMAKE_CXX_COMPILER}
                   ${ARGN} -fsyntax-only -I "${PROJECT_SOURCE_DIR}/include" -x c++ "${PROJECT_SOURCE_DIR}/include/cleave/cleave.hpp")
endfunction()
cleave_lacking(cxx_20 "needs C..20" -std=c++17)
cleave_lacking(exceptions "needs exceptions" -std=c++20 -fno-exceptions)
