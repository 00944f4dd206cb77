# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The version is written once, in include/cleave/version.hpp. Sets CLEAVE_VERSION to major.minor.patch.

set(header "${CMAKE_CURRENT_LIST_DIR}/../include/cleave/version.hpp")
set(CLEAVE_VERSION "")
foreach(part MAJOR MINOR PATCH)
  file(STRINGS "${header}" line REGEX "^#define CLEAVE_VERSION_${part} ")
  if(NOT line MATCHES "CLEAVE_VERSION_${part} +([0-9]+)")
    message(FATAL_ERROR "Cleave: ${header} does not define CLEAVE_VERSION_${part} as a number.")
  endif()
  list(APPEND CLEAVE_VERSION "${CMAKE_MATCH_1}")
endforeach()
list(JOIN CLEAVE_VERSION "." CLEAVE_VERSION)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
