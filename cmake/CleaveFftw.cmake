# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Cleave::fft, which <cleave/linalg/fft.hpp> needs: Cleave::Cleave with FFTW in float and double, or with cuFFT where Kokkos runs on
# CUDA. There is no such target where these are not found. Installed next to CleaveConfig.cmake, so that users' machines decide.

function(cleave_fft_target)
  if(TARGET Cleave::fft)
    return()
  endif()
  if(Kokkos_ENABLE_CUDA)
    find_package(CUDAToolkit QUIET)
    if(TARGET CUDA::cufft)
      add_library(Cleave::fft INTERFACE IMPORTED GLOBAL)
      set_target_properties(Cleave::fft PROPERTIES INTERFACE_LINK_LIBRARIES "Cleave::Cleave;CUDA::cufft")
    endif()
    return()
  endif()
  find_path(CLEAVE_FFTW_INCLUDE_DIR fftw3.h)
  find_library(CLEAVE_FFTW_LIBRARY fftw3)
  find_library(CLEAVE_FFTWF_LIBRARY fftw3f)
  mark_as_advanced(CLEAVE_FFTW_INCLUDE_DIR CLEAVE_FFTW_LIBRARY CLEAVE_FFTWF_LIBRARY)
  if(CLEAVE_FFTW_INCLUDE_DIR AND CLEAVE_FFTW_LIBRARY AND CLEAVE_FFTWF_LIBRARY)
    add_library(Cleave::fft INTERFACE IMPORTED GLOBAL)
    set_target_properties(Cleave::fft PROPERTIES
                          INTERFACE_COMPILE_DEFINITIONS CLEAVE_FFTW=1
                          INTERFACE_INCLUDE_DIRECTORIES "${CLEAVE_FFTW_INCLUDE_DIR}"
                          INTERFACE_LINK_LIBRARIES "Cleave::Cleave;${CLEAVE_FFTW_LIBRARY};${CLEAVE_FFTWF_LIBRARY}")
  endif()
endfunction()
