# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Cleave::hdf5, which <cleave/io/field_file.hpp> needs: Cleave::Cleave with the C library of HDF5, serial or parallel. There is no such
# target where it is not found. Installed next to CleaveConfig.cmake, where the component hdf5 asks for it.

function(cleave_hdf5_target)
  if(TARGET Cleave::hdf5)
    return()
  endif()
  find_path(CLEAVE_HDF5_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(CLEAVE_HDF5_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
  mark_as_advanced(CLEAVE_HDF5_INCLUDE_DIR CLEAVE_HDF5_LIBRARY)
  if(CLEAVE_HDF5_INCLUDE_DIR AND CLEAVE_HDF5_LIBRARY)
    add_library(Cleave::hdf5 INTERFACE IMPORTED GLOBAL)
    set_target_properties(Cleave::hdf5 PROPERTIES
                          INTERFACE_COMPILE_DEFINITIONS CLEAVE_HDF5=1
                          INTERFACE_INCLUDE_DIRECTORIES "${CLEAVE_HDF5_INCLUDE_DIR}"
                          INTERFACE_LINK_LIBRARIES "Cleave::Cleave;${CLEAVE_HDF5_LIBRARY}")
  endif()
endfunction()
