# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds TARGETS of the project in SOURCE for CUDA below WORK, and looks for kernels of Cleave in the device code of each program.

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed: ${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(options -D CMAKE_BUILD_TYPE=Release -D CLEAVE_BUILD_TESTS=OFF -D CLEAVE_BUILD_EXAMPLES=ON -D CLEAVE_BUILD_BENCH=OFF -D CLEAVE_CUDA=ON)
file(REMOVE_RECURSE "${WORK}")
run("configuring for CUDA" ${CMAKE_COMMAND} -S "${SOURCE}" -B "${WORK}" ${options})
run("building ${TARGETS} for CUDA" ${CMAKE_COMMAND} --build "${WORK}" --parallel 2 --target ${TARGETS})

get_filename_component(toolkit "${NVCC}" DIRECTORY)
find_program(CUOBJDUMP cuobjdump HINTS "${toolkit}" REQUIRED)
foreach(target IN LISTS TARGETS)
  file(GLOB_RECURSE program "${WORK}/examples/${target}")
  if(NOT program)
    message(FATAL_ERROR "no program ${target} was built")
  endif()
  execute_process(COMMAND "${CUOBJDUMP}" --dump-elf-symbols "${program}" OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
  string(REGEX MATCHALL "STT_FUNC[^\n]*cleave[^\n]*" kernels "${symbols}")
  list(LENGTH kernels count)
  message("${target}: ${count} functions of Cleave in the device code")
  if(NOT result EQUAL 0 OR count EQUAL 0)
    message(FATAL_ERROR "${program} has no kernels of Cleave in its device code")
  endif()
endforeach()
