// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "text in quotes that is not empty" name_missing name_as_object.cpp:@here
// fix: Write the name as a template argument: `dim<"row"> row`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim row("row"); // here

int main() {}
