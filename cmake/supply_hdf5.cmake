# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# HDF5 (C), which is optional: installed; else, for this project's own tests, Debian's. Without it there is no target Cleave::hdf5, and
# the tests of fields in files and the comparison with a Transformer trained by JAX are left out, which is said.

include("${CMAKE_CURRENT_LIST_DIR}/CleaveHdf5.cmake")
cleave_hdf5_target()
set(origin "installed")
if(NOT TARGET Cleave::hdf5 AND CLEAVE_BUILD_TESTS)
  cleave_apt_install(installed libhdf5-dev)
  if(installed)
    cleave_hdf5_target()
    set(origin "from the system's packages")
  endif()
endif()
if(TARGET Cleave::hdf5)
  message(STATUS "Cleave: HDF5 ${origin}, ${CLEAVE_HDF5_LIBRARY}")
else()
  message(STATUS "Cleave: no HDF5 (libhdf5-dev), there is no target Cleave::hdf5")
endif()
