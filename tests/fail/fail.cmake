# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Each tests/fail/*.cpp is a ctest test fail.<name>, and fail_clang.<name> where clang 16 or later is found. The test errors_page
# compares docs/errors.md with what is made of them.

cleave_sources(sources fail)
if(NOT sources)
  return()
endif()

add_test(NAME errors_page COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/catalogue.py" --check)

cleave_write_options(cleave_core "${CMAKE_CURRENT_BINARY_DIR}/fail_core.txt")
cleave_write_options(cleave "${CMAKE_CURRENT_BINARY_DIR}/fail_runtime.txt")

# Before the others, what they include is precompiled, which takes three quarters of the time off them: names.hpp, and the whole library
# for those that need Kokkos and MPI.
# cleave_fail_precompile(<prefix> <arguments of check.py>...)
function(cleave_fail_precompile prefix)
  set(check ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/check.py")
  add_test(NAME ${prefix}.precompiles_names COMMAND ${check} ${ARGN})
  set_tests_properties(${prefix}.precompiles_names PROPERTIES TIMEOUT 300 FIXTURES_SETUP ${prefix}_names)
  add_test(NAME ${prefix}.precompiles_all COMMAND ${check} ${ARGN} --all)
  set_tests_properties(${prefix}.precompiles_all PROPERTIES TIMEOUT 300 FIXTURES_SETUP ${prefix}_all)
endfunction()

set(options --core "${CMAKE_CURRENT_BINARY_DIR}/fail_core.txt" --runtime "${CMAKE_CURRENT_BINARY_DIR}/fail_runtime.txt")
set(own --compiler ${CMAKE_CXX_COMPILER} --id ${CMAKE_CXX_COMPILER_ID} --precompile "${CMAKE_CURRENT_BINARY_DIR}/fail_names")
cleave_fail_precompile(fail ${options} ${own})
if(CLEAVE_CLANG)
  list(TRANSFORM CLEAVE_CLANG_OPENMP PREPEND "--openmp=" OUTPUT_VARIABLE openmp) # several options where clang has no omp.h of its own
  set(clang --compiler ${CLEAVE_CLANG} --id Clang ${openmp} --precompile "${CMAKE_CURRENT_BINARY_DIR}/fail_clang_names")
  cleave_fail_precompile(fail_clang ${options} ${clang})
  if(CLEAVE_CLANG_OPENMP STREQUAL "NOTFOUND")
    set_tests_properties(fail_clang.precompiles_all PROPERTIES DISABLED ON)
  endif()
endif()

set(without_clang 0)
foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  set(check ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/check.py" ${options})
  add_test(NAME fail.${name} COMMAND ${check} ${own} "${source}")
  file(STRINGS "${source}" runtime REGEX "^// needs: runtime")
  if(runtime)
    set(includes all)
  else()
    set(includes names)
  endif()
  set_tests_properties(fail.${name} PROPERTIES TIMEOUT 300 FIXTURES_REQUIRED fail_${includes})
  if(CLEAVE_CLANG AND NOT (runtime AND CLEAVE_CLANG_OPENMP STREQUAL "NOTFOUND"))
    add_test(NAME fail_clang.${name} COMMAND ${check} ${clang} "${source}")
    set_tests_properties(fail_clang.${name} PROPERTIES TIMEOUT 300 FIXTURES_REQUIRED fail_clang_${includes})
  elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    math(EXPR without_clang "${without_clang} + 1")
  endif()
endforeach()
if(without_clang)
  set(why "no clang ${CLEAVE_CLANG_MINIMUM} or later was found (Debian: clang-16)")
  if(CLEAVE_CLANG)
    set(why "${CLEAVE_CLANG} finds no <omp.h> (Debian: libomp-16-dev)")
  endif()
  cleave_left_out(fail_clang "${without_clang} tests of errors as clang words them" "${why}")
endif()
