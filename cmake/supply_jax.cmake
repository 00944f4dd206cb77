# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# JAX for tests/oracle/against_jax.py and bench/jax_time.py, of the version with which programs were recorded: a wheel through pip, kept in
# the cache. Sets CLEAVE_JAX_PREFIX to a folder for PYTHONPATH, or to nothing where pip does not install it.

set(CLEAVE_JAX_VERSION 0.10.2)
cleave_cache_dir(cache)
set(prefix "${cache}/jax-${CLEAVE_JAX_VERSION}-${CMAKE_HOST_SYSTEM_NAME}-${CMAKE_HOST_SYSTEM_PROCESSOR}")
cleave_cache_origin(have "${prefix}")
if(NOT have AND CLEAVE_SUPPLY)
  message(STATUS "Cleave: installing jax ${CLEAVE_JAX_VERSION} through pip")
  cleave_cache_lock()
  cleave_cache_work(work "jax")
  cleave_pip(have install --quiet --only-binary :all: --target "${work}/prefix" jax==${CLEAVE_JAX_VERSION})
  if(have)
    cleave_cache_publish("${work}/prefix" "${prefix}" "jax ${CLEAVE_JAX_VERSION}")
  endif()
  cleave_cache_unlock()
endif()
set(CLEAVE_JAX_PREFIX "")
if(have)
  set(CLEAVE_JAX_PREFIX "${prefix}")
else()
  message(STATUS "Cleave: pip did not install jax ${CLEAVE_JAX_VERSION}")
endif()
