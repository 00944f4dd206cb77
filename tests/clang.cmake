# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Another compiler reads what users read: all headers, and each marked code block of the documents, with its plans; nothing is linked. The
# preset clang builds and runs everything with it.

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  return()
endif()
get_target_property(blocks cleave_readme SOURCES)
list(FILTER blocks INCLUDE REGEX "/readme/(chains/)?[a-z0-9_]+\\.cpp$")
list(LENGTH blocks count)
math(EXPR count "${count} + 2")
if(NOT CLEAVE_CLANG)
  cleave_left_out(clang "${count} tests that clang reads the headers and the documents"
                  "no clang ${CLEAVE_CLANG_MINIMUM} or later was found (Debian: clang-16)")
  return()
elseif(CLEAVE_CLANG_OPENMP STREQUAL "NOTFOUND")
  cleave_left_out(clang "${count} tests that clang reads the headers and the documents"
                  "${CLEAVE_CLANG} finds no <omp.h> (Debian: libomp-16-dev)")
  return()
endif()

# The blocks include cleave.hpp, which is precompiled before them, with the templates that it instantiates: three quarters of their time.
set(clang ${CLEAVE_CLANG} -std=c++20 -fconstexpr-steps=100000000 -Wall -Wextra -Wpedantic -Wconversion -Wno-unused-const-variable -Werror
          ${CLEAVE_CLANG_OPENMP} "@${CMAKE_CURRENT_BINARY_DIR}/fail_runtime.txt") # a block shows a constant for its own sake
list(TRANSFORM cleave_all_headers REPLACE "(.+)" "#include <\\1>")
list(JOIN cleave_all_headers "\n" text)
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/clang/headers.cpp" CONTENT "${text}\n")
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/clang/cleave.hpp" CONTENT "#include <cleave/cleave.hpp>\n")
set(precompiled "${CMAKE_CURRENT_BINARY_DIR}/clang/cleave.pch")
add_test(NAME clang.headers COMMAND ${clang} -fsyntax-only "${CMAKE_CURRENT_BINARY_DIR}/clang/headers.cpp")
add_test(NAME clang.precompiles_cleave COMMAND ${clang} -x c++-header -fpch-instantiate-templates "${CMAKE_CURRENT_BINARY_DIR}/clang/cleave.hpp" -o "${precompiled}")
set_tests_properties(clang.headers clang.precompiles_cleave PROPERTIES TIMEOUT 300)
set_tests_properties(clang.precompiles_cleave PROPERTIES FIXTURES_SETUP clang_cleave)
foreach(source IN LISTS blocks)
  get_filename_component(name "${source}" NAME_WE)
  add_test(NAME clang.${name} COMMAND ${clang} -fsyntax-only -include-pch "${precompiled}" "${source}")
  set_tests_properties(clang.${name} PROPERTIES TIMEOUT 300 FIXTURES_REQUIRED clang_cleave)
endforeach()

# Any bytes as files of arrays: built on request, as `cmake --build --preset test --target cleave_fuzz_files`, and run by hand with a folder
# for what it finds. It needs the run time of the sanitizers (Debian: libclang-rt-16-dev).
add_custom_target(cleave_fuzz_files
                  COMMAND ${CLEAVE_CLANG} -std=c++20 -fconstexpr-steps=100000000 -g -O1 -fsanitize=fuzzer,address "-I${PROJECT_SOURCE_DIR}/include"
                          "-I${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/fuzz_files/fuzz_files.cpp" -o "${CMAKE_CURRENT_BINARY_DIR}/cleave_fuzz_files"
                  VERBATIM)
