# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Options of this project's own programs (tests, examples, benches), none of which reach users.

option(CLEAVE_WARNINGS_AS_ERRORS "Treat warnings in this project's own programs as errors" OFF)
option(CLEAVE_NATIVE "Compile this project's own programs for the processor of this machine" OFF)
set(CLEAVE_SANITIZE "" CACHE STRING "Sanitizers for this project's own programs, as in -fsanitize=")
option(CLEAVE_SANITIZE_SOME "Build some tests of the run time a second time, under the address and undefined behaviour sanitizers" OFF)

# nvcc has no precompiled headers, and takes the place of a launcher.
if(Kokkos_ENABLE_CUDA)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# ccache, where it is installed. The sloppiness is what precompiled headers need.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER AND NOT Kokkos_ENABLE_CUDA)
  find_program(CLEAVE_CCACHE ccache)
  mark_as_advanced(CLEAVE_CCACHE)
  if(CLEAVE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CLEAVE_CCACHE})
  endif()
endif()

add_library(cleave_own INTERFACE)
target_compile_options(
  cleave_own
  INTERFACE "$<$<CXX_COMPILER_ID:GNU,Clang,AppleClang,IntelLLVM>:-Wall;-Wextra;-Wpedantic;-Wconversion>"
            "$<$<AND:$<BOOL:${CLEAVE_WARNINGS_AS_ERRORS}>,$<CXX_COMPILER_ID:GNU,Clang,AppleClang,IntelLLVM>>:-Werror>"
            "$<$<BOOL:${CLEAVE_NATIVE}>:-march=native>")
if(CLEAVE_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(cleave_own INTERFACE -fpch-preprocess)
endif()
# Plans leave garbage that g++ need not collect where there is memory (docs/internals/compile-time.md): a quarter less time for a test of many plans.
# Not where the time and the memory of the compiler are measured (CLEAVE_COLLECTS_GARBAGE), for users have no such option.
cmake_host_system_information(RESULT megabytes QUERY TOTAL_PHYSICAL_MEMORY)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND megabytes GREATER 12000 AND NOT Kokkos_ENABLE_CUDA)
  math(EXPR kilobytes "${megabytes} * 128") # for each of two compilers an eighth of the memory, before it collects
  target_compile_options(cleave_own INTERFACE "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:CLEAVE_COLLECTS_GARBAGE>>>:--param=ggc-min-heapsize=${kilobytes}>")
endif()
# As where it optimises, g++ -O0 leaves out variables that nothing reads. They are the plans of a source, as they are before they are
# shortened: half of the time of a test of many plans, and megabytes for each.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT Kokkos_ENABLE_CUDA)
  target_compile_options(cleave_own INTERFACE -ftoplevel-reorder)
endif()
function(cleave_add_sanitizers target sanitizers)
  target_compile_options(${target} INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer)
  target_link_options(${target} INTERFACE -fsanitize=${sanitizers})
endfunction()
if(CLEAVE_SANITIZE)
  cleave_add_sanitizers(cleave_own ${CLEAVE_SANITIZE})
  set(CLEAVE_SANITIZE_SOME OFF)
elseif(CLEAVE_SANITIZE_SOME)
  add_library(cleave_sanitized INTERFACE)
  cleave_add_sanitizers(cleave_sanitized address,undefined)
  # Later than the build type's. Optimising what the sanitizers add takes four times as long as compiling without.
  target_compile_options(cleave_sanitized INTERFACE -O0 -g1)
endif()

# Programs of which most of the time goes into compiling: half of it is optimising. nvcc knows no -Og. The simpler allocator of registers
# of g++ takes a fifteenth less time for a test, whose code gets 0.1 % larger.
add_library(cleave_optimised_less INTERFACE)
target_compile_options(cleave_optimised_less INTERFACE "$<IF:$<BOOL:${Kokkos_ENABLE_CUDA}>,-O1,-Og>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT Kokkos_ENABLE_CUDA)
  target_compile_options(cleave_optimised_less INTERFACE -fira-algorithm=priority -fira-region=one)
endif()

# What is precompiled would hide a missing include.
function(cleave_check_includes)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    file(STRINGS "${source}" names REGEX "cleave::" LIMIT_COUNT 1)
    file(STRINGS "${source}" includes REGEX "^#include (<cleave/|\")" LIMIT_COUNT 1)
    if(names AND NOT includes)
      message(FATAL_ERROR "Cleave: ${source} includes no header of Cleave.")
    endif()
  endforeach()
endfunction()

# One precompiled header for all programs that include Kokkos, made once, and once more for programs that are optimised less. It has the
# whole library too, except for the preset quickstart, which has one program: where there are many, each takes 2 to 3 s less.
# cleave_use_precompiled(<target> [<library with options>])
set(cleave_precompiled_headers <Kokkos_Core.hpp> <mpi.h> <algorithm> <array> <cmath> <cstdint> <cstdio> <functional> <memory> <random> <span>
                               <sstream> <string> <string_view> <vector>)
function(cleave_use_precompiled target)
  string(JOIN "_for_" precompiled cleave_precompiled ${ARGN})
  if(NOT TARGET ${precompiled})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${precompiled}.cpp" CONTENT "")
    add_library(${precompiled} OBJECT "${PROJECT_BINARY_DIR}/${precompiled}.cpp")
    target_link_libraries(${precompiled} PRIVATE Cleave::Cleave cleave_own ${ARGN})
    target_precompile_headers(${precompiled} PRIVATE ${cleave_precompiled_headers})
    if(CLEAVE_BUILD_TESTS OR CLEAVE_BUILD_BENCH)
      target_precompile_headers(${precompiled} PRIVATE <cleave/cleave.hpp>)
    endif()
  endif()
  get_target_property(sources ${target} SOURCES)
  cleave_check_includes(${sources})
  target_link_libraries(${target} PRIVATE ${ARGN})
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# Adds a program named `name` of the given sources, on Cleave::Cleave.
function(cleave_add_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE Cleave::Cleave cleave_own)
  cleave_use_precompiled(${name})
endfunction()

# The same for a program that is optimised less.
function(cleave_add_quick_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE Cleave::Cleave cleave_own)
  cleave_use_precompiled(${name} cleave_optimised_less)
endfunction()

# The same for the program of each of the given sources, by its name. The sources are compiled as one, in the object library `library`:
# each has another name for its main(int, char**), which a source of the program calls.
function(cleave_add_quick_programs library)
  cleave_check_includes(${ARGN})
  set(text "")
  foreach(source IN LISTS ARGN)
    get_filename_component(name "${source}" NAME_WE)
    string(APPEND text "#define main main_of_${name}\n#include \"${source}\"\n#undef main\n")
    set(main "${CMAKE_CURRENT_BINARY_DIR}/${library}/${name}.cpp")
    file(CONFIGURE OUTPUT "${main}" CONTENT "int main_of_${name}(int, char**);\nint main(int argc, char** argv) { return main_of_${name}(argc, argv); }\n")
    add_executable(${name} "${main}")
    target_link_libraries(${name} PRIVATE ${library} Cleave::Cleave cleave_own)
  endforeach()
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${library}.cpp" CONTENT "${text}" @ONLY)
  add_library(${library} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/${library}.cpp")
  target_link_libraries(${library} PRIVATE Cleave::Cleave cleave_own)
  cleave_use_precompiled(${library} cleave_optimised_less)
endfunction()

# Writes a file with the include folders and definitions of a target, one option a line, for compilers and tools that CMake does not run.
function(cleave_write_options target file)
  set(probe cleave_options_${target})
  if(NOT TARGET ${probe})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/cleave_options.cpp" CONTENT "")
    add_library(${probe} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/cleave_options.cpp")
    target_link_libraries(${probe} PRIVATE ${target} $<$<STREQUAL:${target},cleave>:$<TARGET_NAME_IF_EXISTS:Cleave::fft>>
                          $<$<STREQUAL:${target},cleave>:$<TARGET_NAME_IF_EXISTS:Cleave::hdf5>>)
  endif()
  set(includes "$<TARGET_PROPERTY:${probe},INCLUDE_DIRECTORIES>")
  set(defines "$<TARGET_PROPERTY:${probe},COMPILE_DEFINITIONS>")
  set(user "${PROJECT_SOURCE_DIR}/include")
  # As CMake does itself: the compiler's own folders, given again, would break its #include_next.
  list(JOIN CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES "|" own)
  string(REGEX REPLACE "([][+.*()^$?\\\\])" "\\\\\\1" own "${user}|${own}")
  set(system "$<FILTER:${includes},EXCLUDE,^(${own})$>")
  file(GENERATE OUTPUT "${file}"
       CONTENT "-I${user}\n$<$<BOOL:${system}>:-isystem\n$<JOIN:${system},\n-isystem\n>\n>$<$<BOOL:${defines}>:-D$<JOIN:${defines},\n-D>\n>")
endfunction()
