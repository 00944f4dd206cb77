# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The BLAS that Kokkos Kernels is built on. What the user named in BLAS_LIBRARIES or BLA_VENDOR is taken as it is. Else the one that is
# installed, unless it is a reference BLAS; else, the fastest of Debian's OpenBLAS and the one of a wheel, the second asked for only
# where the first cannot be had or does not know the processor. Sets
#   blas_libraries    what to link
#   blas_mangling     how its functions are spelled
#   blas_key          what a build on it depends on
#   blas_environment  what programs should be started with, NAME=value

include("${CLEAVE_CMAKE_DIR}/measure_blas.cmake")

set(blas_candidates "") # each adds a prefix of the variables _LIBRARIES, _MANGLING, _ORIGIN and those of cleave_measure_blas
macro(cleave_blas_candidate prefix origin mangling)
  set(${prefix}_LIBRARIES ${ARGN})
  set(${prefix}_ORIGIN "${origin}")
  set(${prefix}_MANGLING "${mangling}")
  cleave_measure_blas(${prefix} "${${prefix}_LIBRARIES}" "${${prefix}_MANGLING}")
  if(${prefix}_LINKS)
    list(APPEND blas_candidates ${prefix})
  endif()
endmacro()

# Whether the best so far leaves something to be wished for.
macro(cleave_blas_wanting out)
  set(${out} TRUE)
  foreach(candidate IN LISTS blas_candidates)
    if(NOT ${candidate}_NAME STREQUAL "reference" AND NOT ${candidate}_OTHERWISE MATCHES "^OPENBLAS")
      set(${out} FALSE)
    endif()
  endforeach()
endmacro()

set(blas_plain "(name,NAME) name ## _") # unless told, Kokkos Kernels asks a Fortran compiler
set(blas_named "")
if(BLAS_LIBRARIES)
  set(blas_named "as BLAS_LIBRARIES names it")
  cleave_blas_candidate(blas_user "${blas_named}" "${blas_plain}" ${BLAS_LIBRARIES} ${BLAS_LINKER_FLAGS})
  if(NOT blas_candidates)
    message(FATAL_ERROR "Cleave: BLAS_LIBRARIES is ${BLAS_LIBRARIES}, and a program that calls sgemm_ does not link with it.")
  endif()
else()
  if((BLA_VENDOR AND NOT BLA_VENDOR STREQUAL "All") OR NOT "$ENV{BLA_VENDOR}" STREQUAL "")
    set(blas_named "as BLA_VENDOR names it")
  endif()
  find_package(BLAS QUIET)
  if(BLAS_FOUND)
    set(how "installed")
    if(blas_named)
      set(how "${blas_named}")
    endif()
    cleave_blas_candidate(blas_installed "${how}" "${blas_plain}" ${BLAS_LIBRARIES} ${BLAS_LINKER_FLAGS})
  elseif(blas_named)
    message(FATAL_ERROR "Cleave: no BLAS was found with BLA_VENDOR=${BLA_VENDOR}$ENV{BLA_VENDOR}, as CMake's FindBLAS understands it.")
  endif()
endif()

# What is installed and merely lacks a setting is kept: the line says which.
set(blas_search FALSE)
if((CLEAVE_SUPPLY OR CLEAVE_USE_CACHE) AND NOT blas_named)
  if(NOT blas_candidates OR blas_installed_NAME STREQUAL "reference")
    set(blas_search TRUE)
  endif()
endif()

if(blas_search)
  cleave_apt_install(installed libopenblas-dev)
  if(installed)
    unset(BLAS_LIBRARIES)
    find_package(BLAS QUIET)
    if(BLAS_FOUND)
      cleave_blas_candidate(blas_system "from the system's packages" "${blas_plain}" ${BLAS_LIBRARIES} ${BLAS_LINKER_FLAGS})
    endif()
  endif()
  cleave_blas_wanting(blas_search)
endif()

if(blas_search)
  set(wheel "scipy-openblas32==0.3.*")
  cleave_cache_dir(cache)
  set(prefix "${cache}/blas-wheel-scipy-openblas32-${CMAKE_SYSTEM_PROCESSOR}")
  cleave_cache_origin(have "${prefix}")
  if(NOT have AND CLEAVE_SUPPLY)
    message(STATUS "Cleave: installing the wheel ${wheel} through pip")
    cleave_cache_lock()
    cleave_cache_work(work "wheel-blas")
    cleave_pip(ok install --quiet --no-deps --only-binary :all: --target "${work}/prefix" "${wheel}")
    if(ok)
      cleave_cache_publish("${work}/prefix" "${prefix}" "the wheel ${wheel}")
    endif()
    cleave_cache_unlock()
  endif()
  set(library "${prefix}/scipy_openblas32/lib/libscipy_openblas.so")
  if(EXISTS "${library}")
    cleave_blas_candidate(blas_wheel "from the wheel scipy-openblas32" "(name,NAME) scipy_ ## name ## _" "${library}")
  endif()
endif()

# The fastest; of those not measured, the last that is no reference BLAS.
set(blas_best "")
foreach(candidate IN LISTS blas_candidates)
  if(NOT blas_best OR ${blas_best}_NAME STREQUAL "reference")
    set(blas_best ${candidate})
  elseif(${candidate}_SPEED AND ${blas_best}_SPEED AND ${candidate}_SPEED GREATER ${blas_best}_SPEED)
    set(blas_best ${candidate})
  endif()
endforeach()
if(NOT blas_best)
  message(FATAL_ERROR "Cleave: no BLAS was found: install libopenblas-dev, or another BLAS that CMake's FindBLAS knows, or name one in "
                      "BLAS_LIBRARIES.")
endif()

set(blas_libraries ${${blas_best}_LIBRARIES})
set(blas_mangling "${${blas_best}_MANGLING}")
cleave_blas_key(blas_key ${blas_libraries})
set(blas_environment "")
if(${blas_best}_OTHERWISE MATCHES "^OPENBLAS_CORETYPE=")
  set(blas_environment "${${blas_best}_OTHERWISE}")
endif()
cleave_say_blas(${blas_best} "${${blas_best}_ORIGIN}" ${blas_libraries})
if(${blas_best}_NAME STREQUAL "reference" AND NOT blas_named)
  message(WARNING "Cleave: only a reference BLAS was found; products run 10 to 30 times slower than they could. Install libopenblas-dev (or "
                  "another fast BLAS), or name it in BLAS_LIBRARIES; to keep this one without a warning, set BLA_VENDOR=Generic.")
endif()
# Where the library goes away (another alternative of Debian, a removed package), the next build configures again and finds another one.
foreach(library IN LISTS blas_libraries)
  if(IS_ABSOLUTE "${library}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${library}")
  endif()
endforeach()
