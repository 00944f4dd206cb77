# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Each tests/fail/*.cpp is a ctest test fail.<name>, and fail_clang.<name> where clang 16 or later is found. The test errors_page
# compares docs/errors.md with what is made of them.

cleave_sources(sources fail)
if(NOT sources)
  return()
endif()

# Include folders and definitions of a target, one option a line.
function(cleave_fail_options target file)
  add_library(cleave_fail_${target} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/cleave_fail.cpp")
  target_link_libraries(cleave_fail_${target} PRIVATE ${target})
  set(includes "$<TARGET_PROPERTY:cleave_fail_${target},INCLUDE_DIRECTORIES>")
  set(defines "$<TARGET_PROPERTY:cleave_fail_${target},COMPILE_DEFINITIONS>")
  set(user "${PROJECT_SOURCE_DIR}/include")
  # As CMake does itself: the compiler's own folders, given again, would break its #include_next.
  list(JOIN CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES "|" own)
  string(REGEX REPLACE "([][+.*()^$?\\\\])" "\\\\\\1" own "${user}|${own}")
  set(system "$<FILTER:${includes},EXCLUDE,^(${own})$>")
  file(GENERATE OUTPUT "${file}"
       CONTENT "-I${user}\n$<$<BOOL:${system}>:-isystem\n$<JOIN:${system},\n-isystem\n>\n>$<$<BOOL:${defines}>:-D$<JOIN:${defines},\n-D>\n>")
endfunction()

add_test(NAME errors_page COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/catalogue.py" --check)

file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/cleave_fail.cpp" CONTENT "")
cleave_fail_options(cleave_core "${CMAKE_CURRENT_BINARY_DIR}/fail_core.txt")
cleave_fail_options(cleave "${CMAKE_CURRENT_BINARY_DIR}/fail_runtime.txt")

find_program(CLEAVE_CLANG NAMES clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++)
mark_as_advanced(CLEAVE_CLANG)
set(clang "")
if(CLEAVE_CLANG AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  execute_process(COMMAND ${CLEAVE_CLANG} -dumpversion OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(version VERSION_GREATER_EQUAL 16)
    set(clang "${CLEAVE_CLANG}")
  endif()
endif()

# Kokkos with OpenMP includes <omp.h>, which a clang beside another compiler need not have.
set(clang_openmp OFF)
if(clang)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/cleave_fail_openmp.cpp" CONTENT "#include <omp.h>\n")
  execute_process(COMMAND ${clang} -fopenmp -fsyntax-only "${PROJECT_BINARY_DIR}/cleave_fail_openmp.cpp"
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(result EQUAL 0)
    set(clang_openmp ON)
  endif()
endif()

foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  set(check ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/check.py" --core "${CMAKE_CURRENT_BINARY_DIR}/fail_core.txt"
      --runtime "${CMAKE_CURRENT_BINARY_DIR}/fail_runtime.txt")
  add_test(NAME fail.${name} COMMAND ${check} --compiler ${CMAKE_CXX_COMPILER} --id ${CMAKE_CXX_COMPILER_ID} "${source}")
  set_tests_properties(fail.${name} PROPERTIES TIMEOUT 300)
  file(STRINGS "${source}" runtime REGEX "^// needs: runtime")
  if(clang AND (clang_openmp OR NOT runtime))
    add_test(NAME fail_clang.${name} COMMAND ${check} --compiler ${clang} --id Clang "${source}")
    set_tests_properties(fail_clang.${name} PROPERTIES TIMEOUT 300)
  endif()
endforeach()
