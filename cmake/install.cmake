# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `cmake --install` needs no build: there are only headers, the package files and the source of a tool.

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/Cleave")

install(TARGETS cleave cleave_core cleave_precompiled_header EXPORT CleaveTargets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cleave" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/cleave")
install(EXPORT CleaveTargets NAMESPACE Cleave:: DESTINATION "${package_dir}")

set(cleave_mpi_compiler "")
if(MPI_CXX_COMPILER MATCHES "/mpi-wheel-")
  set(cleave_mpi_compiler "${MPI_CXX_COMPILER}")
endif()
configure_package_config_file(cmake/CleaveConfig.cmake.in "${PROJECT_BINARY_DIR}/CleaveConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/CleaveConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/CleaveConfig.cmake" "${PROJECT_BINARY_DIR}/CleaveConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/CleaveNvcc.cmake" "${PROJECT_SOURCE_DIR}/cmake/CleaveFftw.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/CleaveHdf5.cmake" "${PROJECT_SOURCE_DIR}/cmake/CleavePlanDiff.cmake"
              "${PROJECT_SOURCE_DIR}/examples/tools/plan_diff.cpp" DESTINATION "${package_dir}")

# For build systems other than CMake: cleave-core (the partitioner alone) and cleave, which names Kokkos, Kokkos Kernels, BLAS and MPI by
# their paths, since these bring no such files themselves.
include("${CLEAVE_CMAKE_DIR}/pkg_config.cmake")
cleave_link_line(CLEAVE_PC_COMPILE CLEAVE_PC_LIBS cleave)
get_target_property(options cleave_core INTERFACE_COMPILE_OPTIONS)
set(CLEAVE_PC_LIMITS "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND options MATCHES "CXX,GNU>:([^>]+)>")
  list(JOIN CMAKE_MATCH_1 " " CLEAVE_PC_LIMITS)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND options MATCHES "Clang,[^>]*>:([^>]+)>")
  list(JOIN CMAKE_MATCH_1 " " CLEAVE_PC_LIMITS)
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(CLEAVE_PC_INCLUDE "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(CLEAVE_PC_INCLUDE "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# Of a folder below the prefix, so that it may be moved.
file(RELATIVE_PATH CLEAVE_PC_UP "/${CMAKE_INSTALL_DATADIR}/pkgconfig" "/")
foreach(name cleave-core cleave)
  configure_file("${CLEAVE_CMAKE_DIR}/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/cleave-core.pc" "${PROJECT_BINARY_DIR}/cleave.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
