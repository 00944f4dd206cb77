// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor has at most 8 dims" rank_too_high line<@here> op=split
// fix: Merge dims that are used together before one is split.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim<"a"> a;
constexpr cleave::dim<"b"> b;
constexpr cleave::dim<"c"> c;
constexpr cleave::dim<"d"> d;
constexpr cleave::dim<"e"> e;
constexpr cleave::dim<"major"> major;
constexpr cleave::dim<"minor", 2> minor;
using A = cleave::abstract<float, mesh(a, b, c, d, e, batch, embed, hidden)>;
constexpr cleave::function f([](auto x) {
  return sum(split(x, hidden, major, minor)); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh()>(A)>(f);

int main() {}
