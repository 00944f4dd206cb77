# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tests that cannot be made on a machine do not vanish: what is left out is said when configuring, and is a test left_out.<name>
# that ctest counts as skipped and lists in its last lines.

# cleave_left_out(<name> <how many tests, or what> <what is missing and how to get it>)
function(cleave_left_out name what why)
  message(STATUS "Cleave: LEFT OUT, ${what}: ${why}")
  set_property(GLOBAL APPEND PROPERTY CLEAVE_LEFT_OUT "${name}|${what}: ${why}")
endfunction()

# Makes the tests; called when all others are there.
function(cleave_left_out_tests)
  get_property(entries GLOBAL PROPERTY CLEAVE_LEFT_OUT)
  if(NOT entries)
    add_test(NAME nothing_left_out COMMAND ${CMAKE_COMMAND} -E echo "All tests of this project are there.")
  endif()
  foreach(entry IN LISTS entries)
    string(FIND "${entry}" "|" at)
    string(SUBSTRING "${entry}" 0 ${at} name)
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${entry}" ${at} -1 words)
    add_test(NAME left_out.${name} COMMAND ${CMAKE_COMMAND} -E echo "LEFT OUT, ${words}")
    set_tests_properties(left_out.${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^LEFT OUT")
  endforeach()
  list(LENGTH entries count)
  if(count)
    message(STATUS "Cleave: ${count} parts of the tests are left out (see above); ctest lists them as left_out")
  endif()
endfunction()
