# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The targets that users link; one more, Cleave::fft, is in CleaveFftw.cmake.
#   Cleave::core         the partitioner alone: the include folder and C++20; no Kokkos, no MPI
#   Cleave::Cleave       all of it: with Kokkos, Kokkos Kernels and MPI
#   Cleave::precompiled  the same, and <cleave/cleave.hpp> as a precompiled header of each target that links it

add_library(cleave_core INTERFACE)
add_library(Cleave::core ALIAS cleave_core)
set_target_properties(cleave_core PROPERTIES EXPORT_NAME core)
target_compile_features(cleave_core INTERFACE cxx_std_20)
target_include_directories(
  cleave_core INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

# Plans are made during constant evaluation, which every compiler bounds: a program of some hundred operations passes clang's
# and nvcc's default bounds, one of some thousand g++'s. Without -fno-math-errno compilers keep square roots scalar: std::sqrt may
# set errno, which nothing here reads. These are the only options that users get from the target.
target_compile_options(
  cleave_core
  INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fconstexpr-ops-limit=1000000000;-fconstexpr-loop-limit=10000000;-fno-math-errno>"
            "$<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang,IntelLLVM>:-fconstexpr-steps=100000000;-fno-math-errno>"
            "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:SHELL:-Xcudafe --max_cost_constexpr_call=100000000>")

add_library(cleave INTERFACE)
add_library(Cleave::Cleave ALIAS cleave)
set_target_properties(cleave PROPERTIES EXPORT_NAME Cleave)
target_link_libraries(cleave INTERFACE cleave_core Kokkos::kokkoskernels Kokkos::kokkos MPI::MPI_CXX)
# Checked mode for all grids, unless the environment of a run says otherwise: CLEAVE_CHECKED=off.
option(CLEAVE_CHECKED "Turn checked mode on in all programs that link Cleave::Cleave" OFF)
target_compile_definitions(cleave INTERFACE "$<$<BOOL:${CLEAVE_CHECKED}>:CLEAVE_CHECKED=1>")
include("${CMAKE_CURRENT_LIST_DIR}/CleaveNvcc.cmake")
cleave_nvcc_limits(cleave)

# Each target makes its own: a precompiled header fits only the options with which it was made. Targets of one project with equal
# options share one by target_precompile_headers(<other> REUSE_FROM <first>).
add_library(cleave_precompiled_header INTERFACE)
add_library(Cleave::precompiled ALIAS cleave_precompiled_header)
set_target_properties(cleave_precompiled_header PROPERTIES EXPORT_NAME precompiled)
target_link_libraries(cleave_precompiled_header INTERFACE cleave)
target_precompile_headers(cleave_precompiled_header INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:<cleave/cleave.hpp$<ANGLE-R>>")
