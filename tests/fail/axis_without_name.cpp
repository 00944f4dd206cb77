// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "text in quotes that is not empty" name_missing axis_without_name.cpp:@here
// fix: Write a name: `axis<"data"> data`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::axis<""> nameless; // here
constexpr cleave::mesh small{nameless};

int main() {}
