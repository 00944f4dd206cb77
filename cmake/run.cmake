# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How this project's own programs are run under MPI. Sets CLEAVE_RUN_ENVIRONMENT, a list of NAME=value, and defines
# cleave_mpi_command(<out> <ranks>).

# One thread a rank, unbound; Kokkos would warn on every rank that there are more ranks than cores.
set(CLEAVE_RUN_ENVIRONMENT OMP_NUM_THREADS=1 OMP_PROC_BIND=false KOKKOS_DISABLE_WARNINGS=true)

# Tests run more ranks than there are cores, and in containers as root; Open MPI refuses both unless told. A rank that waits
# must give its core to one that works.
list(APPEND CLEAVE_RUN_ENVIRONMENT
     OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
     OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_mpi_yield_when_idle=1)

# Open MPI looks for ssh even where everything runs on one machine.
find_program(CLEAVE_SSH NAMES ssh rsh)
mark_as_advanced(CLEAVE_SSH)
if(NOT CLEAVE_SSH)
  list(APPEND CLEAVE_RUN_ENVIRONMENT OMPI_MCA_plm_rsh_agent=false PRTE_MCA_plm_ssh_agent=false)
endif()

# What the BLAS lacks of knowledge of this processor, as measured when it was chosen.
list(APPEND CLEAVE_RUN_ENVIRONMENT ${blas_environment})

if(CLEAVE_SANITIZE OR CLEAVE_SANITIZE_SOME)
  # MPI libraries keep what they allocate until the end. The tests count allocations by an operator new of their own.
  list(APPEND CLEAVE_RUN_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1)
endif()

function(cleave_mpi_command out ranks)
  set(command ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks})
  if(CLEAVE_MPI_FLAVOUR STREQUAL "openmpi")
    list(APPEND command --bind-to none)
  endif()
  set(${out} ${command} ${MPIEXEC_PREFLAGS} PARENT_SCOPE)
endfunction()

# Registers `program` with `ranks` ranks as the ctest test `name`, run from the source folder. One of these tests runs at a time, since
# ranks that wait for each other take turns on the cores; the longest begin first. A rank that waits polls, and takes as much of a core
# as a program that works: each counts as one of the four jobs of the presets, so four ranks or more run alone. (Next to two other jobs
# eight ranks took 590 s, alone 66 s.) Tests that measure times are RUN_SERIAL, and say so themselves.
# cleave_add_mpi_test(<name> <program> <ranks> [<arguments>...])
function(cleave_add_mpi_test name program ranks)
  cleave_add_short_mpi_test(${name} ${program} ${ranks} ${ARGN})
  if(ranks GREATER 1)
    math(EXPR cost "500 + ${ranks}")
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ranks PROCESSORS ${ranks} COST ${cost})
  endif()
endfunction()

# The same for a test of a few seconds, of which the launcher sleeps a part: so two of four ranks run at a time, or four of two, and other
# tests at the same time.
function(cleave_add_short_mpi_test name program ranks)
  cleave_mpi_command(mpirun ${ranks})
  add_test(NAME ${name} COMMAND ${mpirun} $<TARGET_FILE:${program}> ${ARGN} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  math(EXPR slots "(${ranks} + 1) / 2")
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${CLEAVE_RUN_ENVIRONMENT}" TIMEOUT 1800 PROCESSORS ${slots})
endfunction()

# Registers a test whose exit status and words both count, through tests/expect.py: EXIT is zero, or fault for a status that the program
# returns after it said what is wrong. Under MPI where RANKS is given: the launcher takes most of that time, asleep, so others run beside it.
# cleave_expect_test(<name> PROGRAM <target> [RANKS <n>] EXIT zero|fault SAYS <regex>... [LINES <at most>] [ARGUMENTS <argument>...])
function(cleave_expect_test name)
  cmake_parse_arguments(arg "" "PROGRAM;RANKS;EXIT;LINES" "SAYS;ARGUMENTS" ${ARGN})
  set(mpirun "")
  if(arg_RANKS)
    cleave_mpi_command(mpirun ${arg_RANKS})
  endif()
  set(expect ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/expect.py" --exit ${arg_EXIT})
  foreach(words IN LISTS arg_SAYS)
    list(APPEND expect "--says=${words}")
  endforeach()
  if(arg_LINES)
    list(APPEND expect --lines ${arg_LINES})
  endif()
  add_test(NAME ${name} COMMAND ${expect} -- ${mpirun} $<TARGET_FILE:${arg_PROGRAM}> ${arg_ARGUMENTS} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${CLEAVE_RUN_ENVIRONMENT}" TIMEOUT 120)
endfunction()
