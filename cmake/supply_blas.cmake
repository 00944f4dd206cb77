# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# BLAS, which Kokkos Kernels is built on: installed; else Debian's OpenBLAS; else the wheel of OpenBLAS.

find_package(BLAS QUIET)
set(origin "installed")
set(blas_options "") # what Kokkos Kernels must be told; what find_package found it finds as well
set(blas_mangling "(name,NAME) name ## _") # how symbols are spelled; unless told, Kokkos Kernels asks a Fortran compiler

if(NOT BLAS_FOUND)
  cleave_apt_install(installed libopenblas-dev)
  if(installed)
    find_package(BLAS QUIET)
    set(origin "from the system's packages")
  endif()
endif()

if(NOT BLAS_FOUND)
  set(wheel "scipy-openblas32==0.3.*")
  cleave_cache_dir(cache)
  set(prefix "${cache}/blas-wheel-scipy-openblas32-${CMAKE_SYSTEM_PROCESSOR}")
  cleave_cache_origin(have "${prefix}")
  if(NOT have)
    message(STATUS "Cleave: installing the wheel ${wheel} through pip")
    cleave_cache_lock()
    cleave_cache_work(work "wheel-blas")
    cleave_pip(ok install --quiet --no-deps --only-binary :all: --target "${work}/prefix" "${wheel}")
    if(ok)
      cleave_cache_publish("${work}/prefix" "${prefix}" "the wheel ${wheel}")
    endif()
    cleave_cache_unlock()
  endif()
  set(folder "${prefix}/scipy_openblas32/lib")
  if(EXISTS "${folder}/libscipy_openblas.so")
    set(BLAS_FOUND TRUE)
    set(BLAS_LIBRARIES "${folder}/libscipy_openblas.so")
    set(blas_mangling "(name,NAME) scipy_ ## name ## _")
    set(blas_options "-DBLAS_LIBRARIES=scipy_openblas" "-DBLAS_LIBRARY_DIRS=${folder}")
    set(origin "from the wheel scipy-openblas32")
  endif()
endif()

if(NOT BLAS_FOUND)
  message(FATAL_ERROR "Cleave: no BLAS was found: install libopenblas-dev, or another BLAS that CMake's FindBLAS knows.")
endif()
list(GET BLAS_LIBRARIES 0 library)
message(STATUS "Cleave: BLAS ${origin}, ${library}")
