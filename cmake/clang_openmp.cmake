# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Kokkos with OpenMP includes <omp.h>, which a clang beside another compiler need not have. That of g++ does for reading, but for an
# attribute that clang does not know. `out`: options that let `clang` read it, or NOTFOUND.
function(cleave_clang_openmp clang out)
  set(${out} "" PARENT_SCOPE)
  if(NOT Kokkos_ENABLE_OPENMP)
    return()
  endif()
  set(folder "${PROJECT_BINARY_DIR}/CMakeFiles/cleave_openmp")
  file(CONFIGURE OUTPUT "${folder}/probe.cpp" CONTENT "#include <omp.h>\nint main() { return omp_get_num_threads(); }\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=include/omp.h OUTPUT_VARIABLE header OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(CONFIGURE OUTPUT "${folder}/include/omp.h" CONTENT "#define __malloc__(...)\n#include <${header}>\n#undef __malloc__\n")
  get_filename_component(name "${clang}" NAME)
  foreach(options "-fopenmp" "-fopenmp;-isystem${folder}/include")
    if(name MATCHES "tidy")
      set(command "${clang}" --quiet "--checks=-*,misc-unused-parameters" "${folder}/probe.cpp" -- ${options})
    else()
      set(command "${clang}" ${options} -fsyntax-only "${folder}/probe.cpp")
    endif()
    execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
    if(result EQUAL 0)
      set(${out} "${options}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} NOTFOUND PARENT_SCOPE)
endfunction()
