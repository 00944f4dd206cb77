# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A clang beside another compiler, 16 or later, for tests only: installed; else Debian's clang-16. It is asked for syntax and errors, and
# links nothing. Sets CLEAVE_CLANG, empty where there is none, and CLEAVE_CLANG_OPENMP to the options that let it read Kokkos with OpenMP.

set(CLEAVE_CLANG_MINIMUM 16)

# A clang++ of Debian is the default version, which may be too old: the names with a version come first.
macro(cleave_find_clang)
  foreach(name clang++-23 clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++)
    if(NOT CLEAVE_CLANG)
      find_program(CLEAVE_CLANG ${name})
      if(CLEAVE_CLANG)
        execute_process(COMMAND ${CLEAVE_CLANG} -dumpversion OUTPUT_VARIABLE clang_version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        if(NOT clang_version VERSION_GREATER_EQUAL CLEAVE_CLANG_MINIMUM)
          unset(CLEAVE_CLANG CACHE)
        endif()
      endif()
    endif()
  endforeach()
endmacro()

set(clang_how "installed")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CLEAVE_CLANG "")
else()
  cleave_find_clang()
  if(NOT CLEAVE_CLANG)
    cleave_apt_install(installed clang-16)
    set(clang_how "from the system's packages")
    cleave_find_clang()
  endif()
  mark_as_advanced(CLEAVE_CLANG)
  if(CLEAVE_CLANG)
    execute_process(COMMAND ${CLEAVE_CLANG} -dumpversion OUTPUT_VARIABLE clang_version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    message(STATUS "Cleave: clang ${clang_version} ${clang_how}, for tests, ${CLEAVE_CLANG}")
  endif()
endif()

# Kokkos with OpenMP includes <omp.h>, which a clang beside another compiler need not have. That of g++ does for reading, but for an
# attribute that clang does not know.
set(CLEAVE_CLANG_OPENMP "")
if(CLEAVE_CLANG AND Kokkos_ENABLE_OPENMP)
  set(folder "${PROJECT_BINARY_DIR}/CMakeFiles/cleave_openmp")
  file(CONFIGURE OUTPUT "${folder}/probe.cpp" CONTENT "#include <omp.h>\nint main() { return omp_get_num_threads(); }\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=include/omp.h OUTPUT_VARIABLE header OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(CONFIGURE OUTPUT "${folder}/include/omp.h" CONTENT "#define __malloc__(...)\n#include <${header}>\n#undef __malloc__\n")
  set(clang_result 1)
  foreach(options "-fopenmp" "-fopenmp;-isystem${folder}/include")
    if(NOT clang_result EQUAL 0)
      execute_process(COMMAND ${CLEAVE_CLANG} ${options} -fsyntax-only "${folder}/probe.cpp" RESULT_VARIABLE clang_result OUTPUT_QUIET ERROR_QUIET)
      set(CLEAVE_CLANG_OPENMP ${options})
    endif()
  endforeach()
  if(NOT clang_result EQUAL 0)
    set(CLEAVE_CLANG_OPENMP NOTFOUND)
  endif()
endif()
