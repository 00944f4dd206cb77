# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Shards as arrays of numpy and the reverse: Python loads a library, which needs a Kokkos that can be in one.

include(CheckCXXSourceCompiles)
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import numpy; numpy.from_dlpack" RESULT_VARIABLE no_numpy OUTPUT_QUIET ERROR_QUIET)
set(CMAKE_REQUIRED_FLAGS "-std=c++20 -fPIC")
set(CMAKE_REQUIRED_LINK_OPTIONS -shared)
set(CMAKE_REQUIRED_LIBRARIES Kokkos::kokkos)
check_cxx_source_compiles("#include <Kokkos_Core.hpp>\nvoid f() { Kokkos::initialize(); }" CLEAVE_KOKKOS_IN_LIBRARIES)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
unset(CMAKE_REQUIRED_LIBRARIES)
if(no_numpy OR NOT CLEAVE_KOKKOS_IN_LIBRARIES OR CLEAVE_SANITIZE OR Kokkos_ENABLE_CUDA OR Kokkos_ENABLE_HIP OR Kokkos_ENABLE_SYCL)
  cleave_left_out(dlpack "the test that shares shards with numpy"
                  "there is no numpy 1.23 or later (Debian: python3-numpy), Kokkos cannot be in a shared library, or this build is one with sanitizers or for a device")
else()
  cleave_sources(sources dlpack)
  add_library(cleave_dlpack_probe MODULE ${sources})
  target_link_libraries(cleave_dlpack_probe PRIVATE Cleave::Cleave cleave_own)
  cleave_mpi_command(mpirun 1)
  add_test(NAME dlpack_numpy COMMAND ${mpirun} ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/numpy_dlpack.py" $<TARGET_FILE:cleave_dlpack_probe>)
  set_tests_properties(dlpack_numpy PROPERTIES ENVIRONMENT "${CLEAVE_RUN_ENVIRONMENT}" TIMEOUT 60 RUN_SERIAL TRUE)
endif()
