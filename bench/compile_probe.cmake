# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Its entry in compile_commands.json tells compile_time.py the compiler and the include paths. It has no launcher and no
# precompiled header.
include_guard(GLOBAL)
add_library(cleave_compile_probe OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/compile/mlp_layers.cpp")
target_link_libraries(cleave_compile_probe PRIVATE Cleave::Cleave cleave_own)
set_target_properties(cleave_compile_probe PROPERTIES CXX_COMPILER_LAUNCHER "" CLEAVE_COLLECTS_GARBAGE ON)
