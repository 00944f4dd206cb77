# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Cleave::plan_diff, a program that compares two plans in files, for the tests of a project. It is compiled there: the package has no
# programs. Installed next to CleaveConfig.cmake, where the component plan_diff asks for it.

function(cleave_plan_diff_target source)
  if(NOT TARGET Cleave::plan_diff)
    add_executable(cleave_plan_diff "${source}")
    set_target_properties(cleave_plan_diff PROPERTIES OUTPUT_NAME plan_diff)
    target_link_libraries(cleave_plan_diff PRIVATE Cleave::core)
    add_executable(Cleave::plan_diff ALIAS cleave_plan_diff)
  endif()
endfunction()
