# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the supply step says of a cache that cannot be made: a folder within a file.

cmake_minimum_required(VERSION 3.25)
set(CLEAVE_SUPPLY ON)
set(ENV{CLEAVE_CACHE} "${CMAKE_CURRENT_LIST_FILE}/cache")
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/supply.cmake")
cleave_cache_dir(cache)
