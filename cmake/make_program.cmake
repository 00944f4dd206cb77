# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Debian's cmake only recommends make. A fresh machine may have cmake and g++ but no build program, and the generator looks
# for one at project(): so this is included before it, and only when Cleave is the top-level project.

if(NOT CMAKE_GENERATOR STREQUAL "Unix Makefiles" OR CMAKE_MAKE_PROGRAM)
  return()
endif()
find_program(CLEAVE_MAKE NAMES gmake make)
mark_as_advanced(CLEAVE_MAKE)
if(CLEAVE_MAKE)
  return()
endif()

find_program(CLEAVE_APT_GET apt-get)
mark_as_advanced(CLEAVE_APT_GET)
execute_process(COMMAND id -u OUTPUT_VARIABLE uid OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(CLEAVE_APT_GET AND uid STREQUAL "0")
  message(STATUS "Cleave: no build program found, installing make through apt-get")
  set(apt ${CMAKE_COMMAND} -E env DEBIAN_FRONTEND=noninteractive ${CLEAVE_APT_GET} -qq -o DPkg::Lock::Timeout=300)
  execute_process(COMMAND ${apt} update OUTPUT_QUIET ERROR_QUIET)
  execute_process(COMMAND ${apt} install -y --no-install-recommends make OUTPUT_QUIET ERROR_QUIET)
  find_program(CLEAVE_MAKE NAMES gmake make)
endif()
if(NOT CLEAVE_MAKE)
  message(FATAL_ERROR "Cleave: no build program was found: install make, or ninja-build and set CMAKE_GENERATOR=Ninja "
                      "in the environment.")
endif()
