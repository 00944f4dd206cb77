# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Kokkos and Kokkos Kernels: installed (4.7 or later; an older one is as good as none); else, built once into the cache, the
# pinned upstream release; else the source package of PyPI. Both enter through find_package in the end, with Kokkos_DIR and
# KokkosKernels_DIR in the CMake cache. What is built here has the Serial and OpenMP backends, and CUDA with CLEAVE_CUDA; a HIP or SYCL
# build takes an installed Kokkos. Kokkos Kernels is built without instantiating anything: KokkosBlas::gemm reaches the BLAS through its
# headers for LayoutLeft and LayoutRight alike, so that its library takes 3 s to build instead of 190.

set(CLEAVE_KOKKOS_MINIMUM 4.7)
set(CLEAVE_KOKKOS_TAG 4.7.00)
set(CLEAVE_KOKKOS_COMMIT "")
set(CLEAVE_KOKKOS_KERNELS_TAG 4.7.00)
set(CLEAVE_KOKKOS_KERNELS_COMMIT f030e6cb97cece46e14f7471108d891adc425935)

# clang is often installed without its OpenMP runtime: then the Serial backend is all there is.
find_package(OpenMP QUIET COMPONENTS CXX)
option(CLEAVE_KOKKOS_SPARSE "Have Kokkos Kernels with its sparse part, for matrices that KokkosSparse multiplies" OFF)
# The sparse part of the source package is older than its Kokkos, and calls what that has deprecated since. Kokkos' sources are compiled as
# one: most of the time goes into its headers, which each of them reads.
set(kokkos_options -DKokkos_ENABLE_SERIAL=ON -DKokkos_ENABLE_DEPRECATED_CODE_4=${CLEAVE_KOKKOS_SPARSE} -DCMAKE_UNITY_BUILD=ON
                   -DCMAKE_UNITY_BUILD_BATCH_SIZE=0)
if(CLEAVE_KOKKOS_SPARSE)
  list(APPEND kokkos_options -DKokkos_ENABLE_DEPRECATION_WARNINGS=OFF)
endif()
if(OpenMP_CXX_FOUND)
  list(APPEND kokkos_options -DKokkos_ENABLE_OPENMP=ON)
else()
  message(STATUS "Cleave: ${CMAKE_CXX_COMPILER_ID} has no OpenMP here; a Kokkos built now has the Serial backend only")
endif()
set(kernels_options
    -DKokkosKernels_ENABLE_ALL_COMPONENTS=OFF -DKokkosKernels_ENABLE_COMPONENT_BLAS=ON -DKokkosKernels_ENABLE_TPL_BLAS=ON
    -DKokkosKernels_ENABLE_TPL_LAPACK=OFF -DKokkosKernels_INST_DOUBLE=OFF -DKokkosKernels_INST_LAYOUTLEFT=OFF
    -DKokkosKernels_ENABLE_TESTS=OFF -DKokkosKernels_ENABLE_EXAMPLES=OFF)
if(CLEAVE_KOKKOS_SPARSE)
  list(APPEND kernels_options -DKokkosKernels_ENABLE_COMPONENT_SPARSE=ON)
endif()
include("${CLEAVE_CMAKE_DIR}/supply_cuda.cmake")
if(CLEAVE_CUDA)
  # The first release that knows CUDA 13.
  set(CLEAVE_KOKKOS_TAG 4.7.01)
  list(APPEND kokkos_options -DKokkos_ENABLE_CUDA=ON -DKokkos_ARCH_${cleave_cuda_arch}=ON)
  # Products go to cuBLAS; nothing here calls the others.
  list(APPEND kernels_options -DKokkosKernels_ENABLE_TPL_CUBLAS=ON -DKokkosKernels_ENABLE_TPL_CUSPARSE=OFF
       -DKokkosKernels_ENABLE_TPL_CUSOLVER=OFF)
endif()

# Sets `source` and `label` to the source of kokkos or kokkos-kernels, unpacked under `work`.
macro(cleave_kokkos_source name title tag commit work)
  cleave_git_source(source "https://github.com/kokkos/${name}.git" "${tag}" "${commit}" "${work}/upstream")
  set(label "${title} ${tag} of its upstream release")
  if(NOT source)
    cleave_bundle_source(source "${name}" "${work}/bundle")
    set(label "${title} of the source package ${CLEAVE_BUNDLE}")
    if(source AND CLEAVE_CUDA AND "${name}" STREQUAL "kokkos")
      cleave_patch_kokkos("${source}" "${cleave_cuda_sm}")
      string(APPEND label ", patched for CUDA 13")
    endif()
  endif()
  if(source AND CLEAVE_CUDA AND "${name}" STREQUAL "kokkos")
    cleave_patch_kokkos_views("${source}")
    string(APPEND label ", Views patched")
  endif()
  if(NOT source)
    message(FATAL_ERROR "Cleave: no ${title} was found and none could be fetched: install ${title} ${CLEAVE_KOKKOS_MINIMUM} or "
                        "later and pass its prefix in CMAKE_PREFIX_PATH.")
  endif()
endmacro()

# Fills `prefix` unless it is filled; sets `how`.
macro(cleave_supply_kokkos_package name title tag commit prefix)
  cleave_cache_origin(have "${prefix}")
  if(NOT have)
    cleave_cache_lock()
    cleave_cache_origin(have "${prefix}") # another configure may have filled it while this one waited
    if(NOT have)
      cleave_cache_work(work "source-${name}")
      cleave_kokkos_source(${name} "${title}" "${tag}" "${commit}" "${work}")
      cleave_build_package(${name} PREFIX "${prefix}" SOURCE "${source}" ORIGIN "${label}" OPTIONS ${ARGN})
      cleave_cache_dir(cache)
      file(REMOVE_RECURSE "${cache}/scratch/source-${name}")
      cleave_cache_origin(have "${prefix}")
    endif()
    cleave_cache_unlock()
  endif()
  set(how "from the cache (${have})")
endmacro()

if(TARGET Kokkos::kokkos)
  set(kokkos_how "of the enclosing project")
else()
  # A Kokkos_DIR that the cache was emptied of, or that an older build left, is searched for again; so is one without CUDA for a build with.
  if(CLEAVE_CUDA AND EXISTS "${Kokkos_DIR}/KokkosConfigCommon.cmake")
    file(STRINGS "${Kokkos_DIR}/KokkosConfigCommon.cmake" have REGEX "^set\\(Kokkos_DEVICES.*CUDA")
    # One of this cache that was built with other patches is left, too.
    cleave_cache_prefix(prefix kokkos "${kokkos_options};${CLEAVE_KOKKOS_TAG};${CLEAVE_BUNDLE}" ${cleave_nvcc_version} ${cleave_cuda_patches})
    if(NOT have OR (EXISTS "${Kokkos_DIR}/../../../cleave-origin.txt" AND NOT Kokkos_DIR STREQUAL "${prefix}/lib/cmake/Kokkos"))
      unset(Kokkos_DIR CACHE)
      unset(KokkosKernels_DIR CACHE)
    endif()
  endif()
  # So is one that this build folder had before it asked for the sparse part of Kokkos Kernels.
  if(CLEAVE_KOKKOS_SPARSE AND EXISTS "${Kokkos_DIR}/KokkosConfigCommon.cmake" AND EXISTS "${Kokkos_DIR}/../../../cleave-origin.txt")
    file(STRINGS "${Kokkos_DIR}/KokkosConfigCommon.cmake" have REGEX "^set\\(Kokkos_OPTIONS.*DEPRECATED_CODE_4")
    if(NOT have)
      unset(Kokkos_DIR CACHE)
      unset(KokkosKernels_DIR CACHE)
    endif()
  endif()
  find_package(Kokkos ${CLEAVE_KOKKOS_MINIMUM} QUIET CONFIG GLOBAL)
  set(kokkos_how "installed")
  if(Kokkos_FOUND AND CLEAVE_CUDA AND NOT Kokkos_ENABLE_CUDA)
    message(FATAL_ERROR "Cleave: CLEAVE_CUDA=ON, but the Kokkos in ${Kokkos_DIR} does not run on CUDA: pass the prefix of one that does in "
                        "CMAKE_PREFIX_PATH, or -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON once to have one built.")
  endif()
  if(NOT Kokkos_FOUND)
    cleave_cache_prefix(prefix kokkos "${kokkos_options};${CLEAVE_KOKKOS_TAG};${CLEAVE_BUNDLE}" ${cleave_nvcc_version} ${cleave_cuda_patches})
    cleave_cache_origin(have "${prefix}")
    if(NOT have AND NOT CLEAVE_SUPPLY AND NOT CMAKE_CXX_FLAGS MATCHES "-stdlib|_GLIBCXX|-fsanitize|-m32|-mabi|-fabi")
      # Nothing may be built for these flags: one built without flags has the same binary interface.
      set(flags "${CMAKE_CXX_FLAGS}")
      set(CMAKE_CXX_FLAGS "")
      cleave_cache_prefix(prefix kokkos "${kokkos_options};${CLEAVE_KOKKOS_TAG};${CLEAVE_BUNDLE}")
      set(CMAKE_CXX_FLAGS "${flags}")
      cleave_cache_origin(have "${prefix}")
    endif()
    if(NOT CLEAVE_SUPPLY AND NOT (CLEAVE_USE_CACHE AND have))
      message(FATAL_ERROR "Cleave: no Kokkos of version ${CLEAVE_KOKKOS_MINIMUM} or later was found: install it and pass its "
                          "prefix in CMAKE_PREFIX_PATH, or set CLEAVE_SUPPLY=ON to have it built.")
    endif()
    cleave_supply_kokkos_package(kokkos Kokkos "${CLEAVE_KOKKOS_TAG}" "${CLEAVE_KOKKOS_COMMIT}" "${prefix}" ${kokkos_options})
    set(Kokkos_DIR "${prefix}/lib/cmake/Kokkos" CACHE PATH "Folder of KokkosConfig.cmake" FORCE)
    find_package(Kokkos ${CLEAVE_KOKKOS_MINIMUM} QUIET CONFIG REQUIRED GLOBAL)
    set(kokkos_how "${how}")
  elseif(EXISTS "${Kokkos_DIR}/../../../cleave-origin.txt")
    file(READ "${Kokkos_DIR}/../../../cleave-origin.txt" have)
    set(kokkos_how "from the cache (${have})")
  endif()
endif()
message(STATUS "Cleave: Kokkos ${Kokkos_VERSION} ${kokkos_how}, ${Kokkos_DIR}")

if(TARGET Kokkos::kokkoskernels)
  set(how "of the enclosing project")
else()
  # Kokkos Kernels must have been built with this very Kokkos: one that is installed goes with an installed Kokkos only.
  set(how "installed")
  set(KokkosKernels_FOUND FALSE)
  if(NOT kokkos_how MATCHES "cache")
    find_package(KokkosKernels QUIET CONFIG GLOBAL)
  endif()
  if(NOT KokkosKernels_FOUND)
    if(NOT CLEAVE_SUPPLY AND NOT kokkos_how MATCHES "cache")
      message(FATAL_ERROR "Cleave: no Kokkos Kernels was found: install it (with its BLAS component and the BLAS TPL) and pass "
                          "its prefix in CMAKE_PREFIX_PATH, or set CLEAVE_SUPPLY=ON to have it built.")
    endif()
    if((Kokkos_ENABLE_CUDA OR Kokkos_ENABLE_HIP OR Kokkos_ENABLE_SYCL) AND NOT kokkos_how MATCHES "cache")
      message(FATAL_ERROR "Cleave: no Kokkos Kernels was found that goes with the installed Kokkos, which has a GPU backend: "
                          "install Kokkos Kernels built with it and pass its prefix in CMAKE_PREFIX_PATH.")
    endif()
    include("${CLEAVE_CMAKE_DIR}/supply_blas.cmake")
    cleave_cache_prefix(prefix kokkos-kernels "${kernels_options};${CLEAVE_KOKKOS_KERNELS_TAG};${CLEAVE_BUNDLE}"
                        "${Kokkos_DIR};${Kokkos_VERSION};${blas_key};${blas_mangling}")
    list(JOIN blas_libraries "|" blas_joined)
    cleave_supply_kokkos_package(
      kokkos-kernels "Kokkos Kernels" "${CLEAVE_KOKKOS_KERNELS_TAG}" "${CLEAVE_KOKKOS_KERNELS_COMMIT}" "${prefix}"
      ${kernels_options} "-DKokkos_DIR=${Kokkos_DIR}" "-DF77_BLAS_MANGLE=${blas_mangling}"
      "-DCMAKE_MODULE_PATH=${CLEAVE_CMAKE_DIR}/named_blas" "-DCLEAVE_BLAS_LIBRARIES=${blas_joined}")
    set(KokkosKernels_DIR "${prefix}/lib/cmake/KokkosKernels" CACHE PATH "Folder of KokkosKernelsConfig.cmake" FORCE)
    find_package(KokkosKernels QUIET CONFIG REQUIRED GLOBAL)
  endif()
endif()
set(version "${KokkosKernels_VERSION}")
if(NOT version MATCHES "[0-9]" AND EXISTS "${KokkosKernels_DIR}/../../../include/KokkosKernels_config.h")
  # Kokkos Kernels 4.4 leaves the version out of its package files.
  file(STRINGS "${KokkosKernels_DIR}/../../../include/KokkosKernels_config.h" line REGEX "^#define KOKKOSKERNELS_VERSION [0-9]+")
  string(REGEX REPLACE ".* 0*([0-9]+)([0-9][0-9])([0-9][0-9])$" "\\1.\\2.\\3" version "${line}")
  string(REGEX REPLACE "\\.0([0-9])" ".\\1" version "${version}")
endif()
message(STATUS "Cleave: Kokkos Kernels ${version} ${how}, ${KokkosKernels_DIR}")

# Whether cleave/sparse/kokkos_sparse.hpp can be used.
get_target_property(folders Kokkos::kokkoskernels INTERFACE_INCLUDE_DIRECTORIES)
unset(CLEAVE_KOKKOS_SPMV CACHE)
find_file(CLEAVE_KOKKOS_SPMV KokkosSparse_spmv.hpp PATHS ${folders} NO_DEFAULT_PATH)
mark_as_advanced(CLEAVE_KOKKOS_SPMV)

# The BLAS of a Kokkos Kernels that is not ours is what it is; which, and how fast, is said all the same.
if(NOT how MATCHES "cache")
  set(blas_environment "")
  set(libraries "")
  set(mangling "")
  set(header "${KokkosKernels_DIR}/../../../include/KokkosKernels_config.h")
  if(EXISTS "${header}")
    file(STRINGS "${header}" mangling REGEX "^#define F77_BLAS_MANGLE" LIMIT_COUNT 1)
    string(REGEX REPLACE "^#define F77_BLAS_MANGLE" "" mangling "${mangling}")
  endif()
  foreach(target Kokkos::BLAS KokkosKernels::BLAS)
    if(TARGET ${target} AND NOT libraries)
      get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
    endif()
  endforeach()
  if(mangling AND libraries)
    include("${CLEAVE_CMAKE_DIR}/measure_blas.cmake")
    cleave_measure_blas(blas_theirs "${libraries}" "${mangling}")
    cleave_say_blas(blas_theirs "of Kokkos Kernels" ${libraries})
    if(blas_theirs_OTHERWISE MATCHES "^OPENBLAS_CORETYPE=")
      set(blas_environment "${blas_theirs_OTHERWISE}")
    endif()
    if(blas_theirs_NAME STREQUAL "reference")
      message(WARNING "Cleave: this Kokkos Kernels was built on a reference BLAS; products run 10 to 30 times slower than they could.")
    endif()
  else()
    message(STATUS "Cleave: which BLAS this Kokkos Kernels was built on is not known")
  endif()
endif()
