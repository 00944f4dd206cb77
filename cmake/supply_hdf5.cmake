# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# HDF5 (serial, C), which the comparison with a Transformer trained by JAX reads: installed; else Debian's. Without it that program and
# its tests are left out, which is said.

function(cleave_find_hdf5)
  find_path(CLEAVE_HDF5_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(CLEAVE_HDF5_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
  mark_as_advanced(CLEAVE_HDF5_INCLUDE_DIR CLEAVE_HDF5_LIBRARY)
endfunction()

set(origin "installed")
cleave_find_hdf5()
if(NOT (CLEAVE_HDF5_INCLUDE_DIR AND CLEAVE_HDF5_LIBRARY))
  cleave_apt_install(installed libhdf5-dev)
  if(installed)
    cleave_find_hdf5()
    set(origin "from the system's packages")
  endif()
endif()
if(CLEAVE_HDF5_INCLUDE_DIR AND CLEAVE_HDF5_LIBRARY)
  add_library(cleave_hdf5 INTERFACE)
  target_include_directories(cleave_hdf5 SYSTEM INTERFACE "${CLEAVE_HDF5_INCLUDE_DIR}")
  target_link_libraries(cleave_hdf5 INTERFACE "${CLEAVE_HDF5_LIBRARY}")
  message(STATUS "Cleave: HDF5 ${origin}, ${CLEAVE_HDF5_LIBRARY}")
else()
  cleave_left_out(hdf5 "the tests reference.*, which compare training with a run of JAX" "no HDF5 was found (Debian: libhdf5-dev)")
endif()
