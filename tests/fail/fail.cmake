# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The programs of tests/fail are the ctest tests fail.<batch>, and fail_clang.<batch> where clang 16 or later is found: check.py compiles
# many programs at once. Those that no batch can have are tests by their own names. The test errors_page compares docs/errors.md with
# what is made of the programs.

cleave_sources(sources fail)
if(NOT sources)
  return()
endif()

add_test(NAME errors_page COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/catalogue.py" --check)

cleave_write_options(cleave_core "${CMAKE_CURRENT_BINARY_DIR}/fail_core.txt")
cleave_write_options(cleave "${CMAKE_CURRENT_BINARY_DIR}/fail_runtime.txt")

# The programs by what they include, names.hpp or, if they need Kokkos and MPI, the whole library.
set(names_sources "")
set(all_sources "")
foreach(source IN LISTS sources)
  file(STRINGS "${source}" runtime REGEX "^// needs: runtime")
  if(runtime)
    list(APPEND all_sources "${source}")
  else()
    list(APPEND names_sources "${source}")
  endif()
endforeach()

# cleave_fail_tests(<prefix> <names or all> <number of batches> <arguments of check.py>...). First, what the programs include is precompiled.
function(cleave_fail_tests prefix includes batches)
  set(check ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/check.py" --core "${CMAKE_CURRENT_BINARY_DIR}/fail_core.txt"
            --runtime "${CMAKE_CURRENT_BINARY_DIR}/fail_runtime.txt" ${ARGN} --precompile "${CMAKE_CURRENT_BINARY_DIR}/${prefix}_names")
  set(precompiles ${prefix}.precompiles_${includes})
  add_test(NAME ${precompiles} COMMAND ${check} --include ${includes})
  set(tests "")
  set(batched "")
  foreach(source IN LISTS ${includes}_sources)
    file(STRINGS "${source}" alone REGEX "^// (alone|flags):")
    if(alone)
      get_filename_component(name "${source}" NAME_WE)
      list(APPEND tests ${prefix}.${name})
      add_test(NAME ${prefix}.${name} COMMAND ${check} "${source}")
    else()
      list(APPEND batched "${source}")
    endif()
  endforeach()
  foreach(batch RANGE 1 ${batches})
    set(name ${prefix}.batch_${batch}_of_${includes})
    list(APPEND tests ${name})
    add_test(NAME ${name} COMMAND ${check} --batch ${batch}/${batches} --into "${CMAKE_CURRENT_BINARY_DIR}/fail/${name}.cpp" ${batched})
  endforeach()
  set_tests_properties(${precompiles} PROPERTIES FIXTURES_SETUP ${prefix}_${includes})
  set_tests_properties(${tests} PROPERTIES FIXTURES_REQUIRED ${prefix}_${includes})
  set_tests_properties(${precompiles} ${tests} PROPERTIES TIMEOUT 300)
endfunction()

set(compiler --compiler ${CMAKE_CXX_COMPILER} --id ${CMAKE_CXX_COMPILER_ID})
cleave_fail_tests(fail names 12 ${compiler})
cleave_fail_tests(fail all 8 ${compiler})

list(LENGTH sources without_clang)
if(CLEAVE_CLANG)
  set(compiler --compiler ${CLEAVE_CLANG} --id Clang)
  cleave_fail_tests(fail_clang names 12 ${compiler})
  list(LENGTH all_sources without_clang)
  set(why "${CLEAVE_CLANG} finds no <omp.h> (Debian: libomp-16-dev)")
  if(NOT CLEAVE_CLANG_OPENMP STREQUAL "NOTFOUND")
    list(TRANSFORM CLEAVE_CLANG_OPENMP PREPEND "--openmp=" OUTPUT_VARIABLE openmp) # several options where clang has no omp.h of its own
    cleave_fail_tests(fail_clang all 8 ${compiler} ${openmp})
    set(without_clang 0)
  endif()
else()
  set(why "no clang ${CLEAVE_CLANG_MINIMUM} or later was found (Debian: clang-16)")
endif()
if(without_clang AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  cleave_left_out(fail_clang "${without_clang} programs that clang must refuse, with errors as it words them" "${why}")
endif()
