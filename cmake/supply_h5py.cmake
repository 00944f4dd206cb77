# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# h5py for tests/examples/read_fields.py: installed for this Python; else a wheel through pip, kept in the cache. Sets CLEAVE_H5PY to TRUE
# and CLEAVE_H5PY_PREFIX to a folder for PYTHONPATH (empty: none is needed), or leaves the test out with a word.

set(CLEAVE_H5PY_VERSION 3.16.0)
set(CLEAVE_H5PY TRUE)
set(CLEAVE_H5PY_PREFIX "")
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import h5py" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  cleave_cache_dir(cache)
  set(prefix "${cache}/h5py-${CLEAVE_H5PY_VERSION}-${CMAKE_HOST_SYSTEM_NAME}-${CMAKE_HOST_SYSTEM_PROCESSOR}")
  cleave_cache_origin(have "${prefix}")
  if(NOT have AND CLEAVE_SUPPLY)
    message(STATUS "Cleave: installing h5py ${CLEAVE_H5PY_VERSION} through pip")
    cleave_cache_lock()
    cleave_cache_work(work "h5py")
    cleave_pip(have install --quiet --only-binary :all: --target "${work}/prefix" h5py==${CLEAVE_H5PY_VERSION})
    if(have)
      cleave_cache_publish("${work}/prefix" "${prefix}" "h5py ${CLEAVE_H5PY_VERSION}")
    endif()
    cleave_cache_unlock()
  endif()
  if(have)
    set(CLEAVE_H5PY_PREFIX "${prefix}")
  else()
    set(CLEAVE_H5PY FALSE)
    cleave_left_out(h5py "the test that reads fields with h5py" "pip did not install h5py ${CLEAVE_H5PY_VERSION}")
  endif()
endif()
