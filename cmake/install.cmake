# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `cmake --install` needs no build: there are only headers and the package files.

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/Cleave")

install(TARGETS cleave cleave_core EXPORT CleaveTargets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cleave" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/cleave")
install(EXPORT CleaveTargets NAMESPACE Cleave:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/CleaveConfig.cmake.in "${PROJECT_BINARY_DIR}/CleaveConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/CleaveConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/CleaveConfig.cmake" "${PROJECT_BINARY_DIR}/CleaveConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/CleaveNvcc.cmake" "${PROJECT_SOURCE_DIR}/cmake/CleaveFftw.cmake" DESTINATION "${package_dir}")
