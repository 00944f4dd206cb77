# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs the project where WAY is find_package, then configures, builds and runs the user's project of that name.

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed: ${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(STRINGS "${FOUND}" options)
file(REMOVE_RECURSE "${WORK}")
if(WAY STREQUAL "find_package")
  run("the installation" ${CMAKE_COMMAND} --install "${BUILD}" --prefix "${WORK}/prefix")
  list(APPEND options "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
else()
  list(APPEND options "-DCLEAVE_SOURCE=${SOURCE}")
endif()
run("configuring" ${CMAKE_COMMAND} -S "${SOURCE}/tests/install/${WAY}" -B "${WORK}/build" -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Debug ${options})
run("building" ${CMAKE_COMMAND} --build "${WORK}/build")
run("running" "${WORK}/build/app")
if(NOT output MATCHES "Cleave ${VERSION}")
  message(FATAL_ERROR "the program does not print the version ${VERSION}")
endif()
