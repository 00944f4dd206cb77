# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# FFTW, which is optional: installed; else, for this project's own tests, Debian's. Without it there is no target Cleave::fft.

include("${CMAKE_CURRENT_LIST_DIR}/CleaveFftw.cmake")
cleave_fft_target()
set(origin "installed")
if(NOT TARGET Cleave::fft AND CLEAVE_BUILD_TESTS AND NOT Kokkos_ENABLE_CUDA)
  cleave_apt_install(installed libfftw3-dev)
  if(installed)
    cleave_fft_target()
    set(origin "from the system's packages")
  endif()
endif()
if(NOT TARGET Cleave::fft)
  message(STATUS "Cleave: no FFTW (libfftw3-dev), there is no target Cleave::fft")
elseif(CLEAVE_FFTW_LIBRARY)
  message(STATUS "Cleave: FFTW ${origin}, ${CLEAVE_FFTW_LIBRARY}")
endif()
