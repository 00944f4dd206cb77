# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The targets `lint` (clang-format and clang-tidy, both check only) and `format` (clang-format rewrites). Both tools come as wheels of one
# version, so that everybody gets the same lines: cmake --workflow --preset lint. Beside the tests `lint` is a test as well.

set(CLEAVE_LINT_VERSION 23.1.4)
cleave_cache_dir(cache)
set(prefix "${cache}/lint-${CLEAVE_LINT_VERSION}-${CMAKE_HOST_SYSTEM_NAME}-${CMAKE_HOST_SYSTEM_PROCESSOR}")
cleave_cache_origin(have "${prefix}")
if(NOT have AND CLEAVE_SUPPLY)
  message(STATUS "Cleave: installing the wheels clang-format and clang-tidy ${CLEAVE_LINT_VERSION} through pip")
  cleave_cache_lock()
  cleave_cache_work(work "lint")
  cleave_pip(have install --quiet --no-deps --only-binary :all: --target "${work}/prefix" clang-format==${CLEAVE_LINT_VERSION}
             clang-tidy==${CLEAVE_LINT_VERSION})
  if(have)
    cleave_cache_publish("${work}/prefix" "${prefix}" "wheels of version ${CLEAVE_LINT_VERSION}")
  endif()
  cleave_cache_unlock()
endif()
if(NOT have AND CLEAVE_BUILD_TESTS)
  cleave_left_out(lint "the test of the format and of clang-tidy" "pip did not install the wheels clang-format and clang-tidy ${CLEAVE_LINT_VERSION}")
  return()
elseif(NOT have)
  message(FATAL_ERROR "Cleave: CLEAVE_LINT needs the wheels clang-format and clang-tidy ${CLEAVE_LINT_VERSION}, which pip did not install.")
endif()
set(format "${prefix}/clang_format/data/bin/clang-format")
set(tidy "${prefix}/clang_tidy/data/bin/clang-tidy")
message(STATUS "Cleave: clang-format and clang-tidy ${CLEAVE_LINT_VERSION}, ${prefix}")

set(lint ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/lint/lint.py")
set(folder "${PROJECT_BINARY_DIR}/lint")
file(MAKE_DIRECTORY "${folder}")
cleave_write_options(cleave "${folder}/options.txt")
cleave_clang_openmp("${tidy}" openmp)
list(JOIN openmp "|" openmp)
set(lint_all
    ${lint} --format "${format}" --tidy "${tidy}" --options "${folder}/options.txt" "--openmp=${openmp}" --folder "${folder}"
    $<$<TARGET_EXISTS:Cleave::fft>:--fft>)
add_custom_target(lint COMMAND ${lint_all} USES_TERMINAL VERBATIM COMMAND_EXPAND_LISTS)
add_custom_target(format COMMAND ${lint} --format "${format}" --fix USES_TERMINAL VERBATIM)
if(CLEAVE_BUILD_TESTS)
  add_test(NAME lint COMMAND ${lint_all} COMMAND_EXPAND_LISTS)
endif()
