# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# With CLEAVE_CUDA the Kokkos must run on CUDA: an installed one that does is taken, else one is built with nvcc, for which no GPU has to
# be there. Kokkos of 4.7.0 does not know CUDA 13 yet: it gets the two calls whose signatures changed, and an architecture that is left.
# Releases up to 4.7.1 get Views of one layout on the host and on the device.

option(CLEAVE_CUDA "Run on CUDA: take an installed Kokkos that does, else build one with nvcc" OFF)
set(CLEAVE_CUDA_ARCH "" CACHE STRING "The GPU's architecture by Kokkos' name, as in AMPERE80; empty for that of the GPU in this machine, else HOPPER90")
mark_as_advanced(CLEAVE_CUDA_ARCH)

# Sets `arch` to Kokkos' name of the architecture, and `sm` to nvcc's.
function(cleave_cuda_arch arch sm)
  set(name "${CLEAVE_CUDA_ARCH}")
  if(NOT name)
    set(name HOPPER90)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE result)
    if(result EQUAL 0 AND found MATCHES "^([0-9]+)\\.([0-9])")
      set(capability "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
      foreach(known VOLTA70 TURING75 AMPERE80 AMPERE86 AMPERE87 ADA89 HOPPER90 BLACKWELL100 BLACKWELL120)
        if(known MATCHES "[A-Z]${capability}$")
          set(name ${known})
        endif()
      endforeach()
    endif()
  endif()
  string(REGEX REPLACE "^[A-Z]+" "sm_" number "${name}")
  set(${arch} "${name}" PARENT_SCOPE)
  set(${sm} "${number}" PARENT_SCOPE)
endfunction()

# Puts `new` for `old` in a file; an error where `old` is not found.
function(cleave_patch file old new)
  file(READ "${file}" text)
  string(FIND "${text}" "${old}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "Cleave: ${file} is not what the patch for CUDA was made for: it lacks\n${old}")
  endif()
  string(REPLACE "${old}" "${new}" text "${text}")
  file(WRITE "${file}" "${text}")
endfunction()

# Kokkos 4.7.0, which lies in `source`, for CUDA 13: cudaGraphAddDependencies takes data of the edges there, cudaMemPrefetchAsync a place
# and flags, and nvcc no longer compiles for sm_70, nvcc_wrapper's default.
function(cleave_patch_kokkos source sm)
  set(file "${source}/core/src/Cuda/Kokkos_Cuda_Instance.hpp")
  set(call "    return cudaGraphAddDependencies(graph, from, to, numDependencies);\n")
  cleave_patch("${file}" "${call}" "#if CUDART_VERSION >= 13000
    return cudaGraphAddDependencies(graph, from, to, nullptr, numDependencies);
#else
${call}#endif
")
  set(call "    return cudaMemPrefetchAsync(devPtr, count, dstDevice, m_stream);\n")
  cleave_patch("${file}" "${call}" "#if CUDART_VERSION >= 13000
    const bool host = dstDevice == cudaCpuDeviceId;
    const cudaMemLocation location{host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, host ? 0 : dstDevice};
    return cudaMemPrefetchAsync(devPtr, count, location, 0, m_stream);
#else
${call}#endif
")
  cleave_patch("${source}/bin/nvcc_wrapper" "default_arch=\"sm_70\"" "default_arch=\"${sm}\"")
endfunction()

# nvcc of CUDA 12.9 and newer lays out classes with empty members that are [[no_unique_address]] differently on the host and on the device, so
# that kernels read Views where they are not. Later releases of Kokkos do without (https://github.com/kokkos/kokkos/pull/8615).
function(cleave_patch_kokkos_views source)
  set(file "${source}/tpls/mdspan/include/experimental/__p0009_bits/config.hpp")
  set(condition "(!defined(__NVCC__) || MDSPAN_HAS_CXX_20)")
  file(READ "${file}" text)
  string(FIND "${text}" "${condition}" at)
  if(NOT at EQUAL -1)
    cleave_patch("${file}" "${condition}" "(!defined(__NVCC__) || (MDSPAN_HAS_CXX_20 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1209))")
  endif()
endfunction()

if(CLEAVE_CUDA)
  # What is built with other patches lies elsewhere in the cache.
  set(cleave_cuda_patches 2)
  find_program(CLEAVE_NVCC nvcc PATHS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_ROOT}/bin" /usr/local/cuda/bin)
  mark_as_advanced(CLEAVE_NVCC)
  if(NOT CLEAVE_NVCC)
    message(FATAL_ERROR "Cleave: CLEAVE_CUDA=ON needs nvcc: install the CUDA toolkit and put its bin folder into PATH.")
  endif()
  # Kokkos' nvcc_wrapper calls it by its name.
  get_filename_component(folder "${CLEAVE_NVCC}" DIRECTORY)
  set(ENV{PATH} "${folder}:$ENV{PATH}")
  # Kokkos for CUDA launches the compiler itself.
  unset(ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  execute_process(COMMAND "${CLEAVE_NVCC}" --version OUTPUT_VARIABLE cleave_nvcc_version)
  string(REGEX REPLACE ".*release ([0-9.]+).*" "\\1" cleave_nvcc_version "${cleave_nvcc_version}")
  cleave_cuda_arch(cleave_cuda_arch cleave_cuda_sm)
endif()
