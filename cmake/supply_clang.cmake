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

include("${CLEAVE_CMAKE_DIR}/clang_openmp.cmake")
set(CLEAVE_CLANG_OPENMP "")
if(CLEAVE_CLANG)
  cleave_clang_openmp("${CLEAVE_CLANG}" CLEAVE_CLANG_OPENMP)
endif()
