# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How a dependency is obtained where it is not installed: system packages through apt-get (as root), wheels and a source
# package through pip, upstream sources through git. What is built here is built once, into a per-user cache outside the
# build folder. With CLEAVE_SUPPLY=OFF, as in a project that takes Cleave in by add_subdirectory or FetchContent, nothing is obtained, but
# what an earlier configure step left in the cache is used; with CLEAVE_USE_CACHE=OFF too, what find_package does not find is an error.

option(CLEAVE_SUPPLY "Obtain dependencies that are not installed" ${PROJECT_IS_TOP_LEVEL})
option(CLEAVE_USE_CACHE "Use dependencies that an earlier configure step built into the cache" ON)
mark_as_advanced(CLEAVE_USE_CACHE)
option(CLEAVE_SUPPLY_SYSTEM "Let the supply step install system packages through apt-get when run as root" ON)
mark_as_advanced(CLEAVE_SUPPLY_SYSTEM)

function(cleave_refuse_cache dir)
  message(FATAL_ERROR "Cleave: ${dir} cannot be written, where dependencies that are not installed are kept. Name another folder in "
                      "the environment variable CLEAVE_CACHE, or set CLEAVE_SUPPLY=OFF to use installed ones alone.")
endfunction()

# The folder that keeps what was built, for all build folders and clones of this user.
function(cleave_cache_dir out)
  if(NOT "$ENV{CLEAVE_CACHE}" STREQUAL "")
    set(dir "$ENV{CLEAVE_CACHE}")
  elseif(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(dir "$ENV{XDG_CACHE_HOME}/cleave")
  elseif(NOT "$ENV{HOME}" STREQUAL "")
    set(dir "$ENV{HOME}/.cache/cleave")
  else()
    set(dir "${CMAKE_BINARY_DIR}/cleave-cache")
  endif()
  get_filename_component(dir "${dir}" ABSOLUTE BASE_DIR "${CMAKE_BINARY_DIR}")
  # Not file(MAKE_DIRECTORY), whose error names no remedy. Without CLEAVE_SUPPLY nothing is written.
  execute_process(COMMAND ${CMAKE_COMMAND} -E make_directory "${dir}" OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE failed)
  if(failed AND CLEAVE_SUPPLY)
    cleave_refuse_cache("${dir}")
  endif()
  set(${out} "${dir}" PARENT_SCOPE)
endfunction()

# A prefix in the cache whose name depends on the compiler, its flags and whatever else is passed: a cached build is never
# used with a compiler or options that it was not made for. Flags that change no binary interface do not count.
function(cleave_cache_prefix out name)
  set(flags "")
  separate_arguments(all NATIVE_COMMAND "${CMAKE_CXX_FLAGS}")
  foreach(flag IN LISTS all)
    if(NOT flag MATCHES "^-(W[^l,].*|W|g[0-9]?|ggdb[0-9]?|pipe|fdiagnostics.*|fcolor.*|pedantic.*)$")
      list(APPEND flags "${flag}")
    endif()
  endforeach()
  list(JOIN flags " " flags)
  set(id "${CMAKE_CXX_COMPILER_ID};${CMAKE_CXX_COMPILER_VERSION};${CMAKE_CXX_COMPILER};${flags}")
  string(SHA256 key "${id};${CMAKE_SYSTEM_NAME};${CMAKE_SYSTEM_PROCESSOR};${ARGN}")
  string(SUBSTRING "${key}" 0 12 key)
  cleave_cache_dir(cache)
  string(TOLOWER "${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}" compiler)
  set(${out} "${cache}/${name}-${compiler}-${key}" PARENT_SCOPE)
endfunction()

# One configure at a time fills the cache; a second one waits, then finds it filled.
function(cleave_cache_lock)
  cleave_cache_dir(cache)
  execute_process(COMMAND ${CMAKE_COMMAND} -E touch "${cache}/lock" OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    cleave_refuse_cache("${cache}")
  endif()
  file(LOCK "${cache}/lock" GUARD PROCESS TIMEOUT 3600 RESULT_VARIABLE result)
  if(result)
    message(FATAL_ERROR "Cleave: ${cache}/lock has been held for an hour by another configure step: ${result}.")
  endif()
endfunction()

function(cleave_cache_unlock)
  cleave_cache_dir(cache)
  file(LOCK "${cache}/lock" RELEASE)
endfunction()

# A fresh folder in the cache, on the same file system, so that moving it into place is one atomic step. What an interrupted
# configure left here is never looked at; leftovers older than the lock holder are removed.
function(cleave_cache_work out name)
  cleave_cache_dir(cache)
  string(RANDOM LENGTH 8 suffix)
  file(REMOVE_RECURSE "${cache}/scratch/${name}")
  set(dir "${cache}/scratch/${name}/${suffix}")
  file(MAKE_DIRECTORY "${dir}")
  set(${out} "${dir}" PARENT_SCOPE)
endfunction()

# Moves a finished prefix into place. `origin` says where it came from, and is what makes the prefix valid.
function(cleave_cache_publish from to origin)
  file(WRITE "${from}/cleave-origin.txt" "${origin}")
  file(REMOVE_RECURSE "${to}")
  file(RENAME "${from}" "${to}")
endfunction()

# The origin of a prefix, empty where it is absent or unfinished.
function(cleave_cache_origin out prefix)
  set(origin "")
  if(EXISTS "${prefix}/cleave-origin.txt")
    file(READ "${prefix}/cleave-origin.txt" origin)
  endif()
  set(${out} "${origin}" PARENT_SCOPE)
endfunction()

# Configures, builds and installs a CMake project into `prefix` of the cache.
# cleave_build_package(<name> PREFIX <dir> SOURCE <dir> ORIGIN <text> OPTIONS <-D...>)
function(cleave_build_package name)
  cmake_parse_arguments(arg "" "PREFIX;SOURCE;ORIGIN" "OPTIONS" ${ARGN})
  message(STATUS "Cleave: building ${arg_ORIGIN} once into ${arg_PREFIX}")
  cleave_cache_work(work "build-${name}")
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  # This may be run from inside a build, whose job server is not ours.
  set(cmake ${CMAKE_COMMAND} -E env --unset=MAKEFLAGS --unset=MFLAGS --unset=DESTDIR ${CMAKE_COMMAND})
  string(TIMESTAMP start "%s")
  foreach(step configure build)
    if(step STREQUAL "configure")
      set(command ${cmake} -S "${arg_SOURCE}" -B "${work}/build" -G "${CMAKE_GENERATOR}"
          "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
          "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=20
          -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF
          "-DCMAKE_INSTALL_PREFIX=${work}/prefix" -DCMAKE_INSTALL_LIBDIR=lib ${arg_OPTIONS})
    else()
      set(command ${cmake} --build "${work}/build" --config Release --target install --parallel ${cores})
    endif()
    execute_process(COMMAND ${command} OUTPUT_FILE "${work}/${step}.log" ERROR_FILE "${work}/${step}.err"
                    RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
      file(READ "${work}/${step}.err" errors LIMIT 4000)
      message(FATAL_ERROR "Cleave: the ${step} step of ${arg_ORIGIN} failed (logs in ${work}); install ${name} yourself and "
                          "pass its prefix in CMAKE_PREFIX_PATH, or repair the fault that it names:\n${errors}")
    endif()
  endforeach()
  string(TIMESTAMP end "%s")
  math(EXPR seconds "${end} - ${start}")
  message(STATUS "Cleave: built ${arg_ORIGIN} in ${seconds} s")
  cleave_cache_publish("${work}/prefix" "${arg_PREFIX}" "${arg_ORIGIN}")
  cleave_cache_dir(cache)
  file(REMOVE_RECURSE "${cache}/scratch/build-${name}")
endfunction()

# Sets `out` to true where system packages may be installed: the supply step is on, this is root, and apt-get is there.
function(cleave_apt_allowed out)
  set(${out} FALSE PARENT_SCOPE)
  if(NOT CLEAVE_SUPPLY OR NOT CLEAVE_SUPPLY_SYSTEM)
    return()
  endif()
  find_program(CLEAVE_APT_GET apt-get)
  mark_as_advanced(CLEAVE_APT_GET)
  execute_process(COMMAND id -u OUTPUT_VARIABLE uid OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(CLEAVE_APT_GET AND uid STREQUAL "0")
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Installs Debian packages; `out` says whether that worked. The package lists are refreshed once a configure.
function(cleave_apt_install out)
  set(${out} FALSE PARENT_SCOPE)
  cleave_apt_allowed(allowed)
  if(NOT allowed)
    return()
  endif()
  list(JOIN ARGN " " packages)
  message(STATUS "Cleave: installing ${packages} through apt-get")
  set(apt ${CMAKE_COMMAND} -E env DEBIAN_FRONTEND=noninteractive ${CLEAVE_APT_GET} -qq -o DPkg::Lock::Timeout=300)
  get_property(updated GLOBAL PROPERTY CLEAVE_APT_UPDATED)
  if(NOT updated)
    execute_process(COMMAND ${apt} update OUTPUT_VARIABLE log ERROR_VARIABLE log TIMEOUT 600)
    set_property(GLOBAL PROPERTY CLEAVE_APT_UPDATED TRUE)
  endif()
  execute_process(COMMAND ${apt} install -y --no-install-recommends ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE log
                  ERROR_VARIABLE log TIMEOUT 1200)
  if(result EQUAL 0)
    set(${out} TRUE PARENT_SCOPE)
  else()
    string(STRIP "${log}" log)
    message(STATUS "Cleave: apt-get could not install ${packages}: ${log}")
  endif()
endfunction()

# Runs `python3 -m pip <arguments>`; `out` says whether that worked.
function(cleave_pip out)
  set(${out} FALSE PARENT_SCOPE)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(NOT Python3_EXECUTABLE)
    message(STATUS "Cleave: pip is needed, and no python3 was found")
    return()
  endif()
  execute_process(COMMAND ${Python3_EXECUTABLE} -m pip --version RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(NOT result EQUAL 0)
    cleave_apt_install(installed python3-pip)
  endif()
  set(environment PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1 --unset=MAKEFLAGS
      --unset=PYTHONPATH)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${environment} ${Python3_EXECUTABLE} -m pip ${ARGN} RESULT_VARIABLE result
                  OUTPUT_VARIABLE log ERROR_VARIABLE log TIMEOUT 1200)
  if(result EQUAL 0)
    set(${out} TRUE PARENT_SCOPE)
  else()
    list(GET ARGN 0 verb)
    list(GET ARGN -1 what)
    string(STRIP "${log}" log)
    string(REGEX REPLACE ".*\n" "" log "${log}") # pip says last what went wrong
    message(STATUS "Cleave: pip ${verb} of ${what} failed: ${log}")
  endif()
endfunction()

# Clones a pinned tag where the host can be reached: `out` is empty where it cannot, within seconds. `commit` may be empty.
function(cleave_git_source out url tag commit into)
  set(${out} "" PARENT_SCOPE)
  find_program(CLEAVE_GIT git)
  mark_as_advanced(CLEAVE_GIT)
  if(NOT CLEAVE_GIT)
    return()
  endif()
  set(git ${CMAKE_COMMAND} -E env GIT_TERMINAL_PROMPT=0 ${CLEAVE_GIT})
  execute_process(COMMAND ${git} ls-remote --exit-code "${url}" "refs/tags/${tag}" RESULT_VARIABLE result OUTPUT_QUIET
                  ERROR_QUIET TIMEOUT 8)
  if(NOT result EQUAL 0)
    return()
  endif()
  execute_process(COMMAND ${git} -c advice.detachedHead=false clone --quiet --depth 1 --branch "${tag}" "${url}" "${into}"
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET TIMEOUT 600)
  if(NOT result EQUAL 0)
    return()
  endif()
  if(commit)
    execute_process(COMMAND ${git} -C "${into}" rev-parse HEAD OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT head STREQUAL commit)
      message(WARNING "Cleave: the tag ${tag} of ${url} is not the commit ${commit} that is pinned; it is not used.")
      return()
    endif()
  endif()
  set(${out} "${into}" PARENT_SCOPE)
endfunction()

# The source package of PyPI that carries Kokkos, Kokkos Kernels, GoogleTest and nlohmann-json in its tpls folder. `out` is
# the folder of `part`, unpacked under `into`, or empty.
set(CLEAVE_BUNDLE "pygenten==0.1.5")
set(CLEAVE_BUNDLE_SHA256 e620f05c742905e2db705d875f1cac92ef0ed453f9e6734e9beda26cc0f9cce7)
function(cleave_bundle_source out part into)
  set(${out} "" PARENT_SCOPE)
  cleave_cache_dir(cache)
  string(REPLACE "==" "-" file "${CLEAVE_BUNDLE}")
  string(REGEX REPLACE "==.*" "" package "${CLEAVE_BUNDLE}")
  set(archive "${cache}/${file}.tar.gz")
  if(NOT EXISTS "${archive}")
    message(STATUS "Cleave: fetching the source package ${CLEAVE_BUNDLE} through pip")
    cleave_cache_work(work "download")
    cleave_pip(ok download --quiet --no-deps --no-binary "${package}" --dest "${work}" "${CLEAVE_BUNDLE}")
    if(NOT ok)
      return()
    endif()
    file(RENAME "${work}/${file}.tar.gz" "${archive}")
    file(REMOVE_RECURSE "${cache}/scratch/download")
  endif()
  file(SHA256 "${archive}" sum)
  if(NOT sum STREQUAL CLEAVE_BUNDLE_SHA256)
    file(REMOVE "${archive}")
    message(FATAL_ERROR "Cleave: the source package ${CLEAVE_BUNDLE} has the checksum ${sum} instead of "
                        "${CLEAVE_BUNDLE_SHA256}; it was removed, configure again.")
  endif()
  file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${into}" PATTERNS "*/tpls/${part}/*")
  set(${out} "${into}/${file}/tpls/${part}" PARENT_SCOPE)
endfunction()
