// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor has at most 8 dims" rank_too_high line<@here> op=dot
// fix: The result of `dot` has all dims of both operands that are not summed over. Sum over the shared ones here, as
// fix: in `dot(x, y, a)`, or `merge` dims that always go together.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim<"a"> a;
constexpr cleave::dim<"b"> b;
constexpr cleave::dim<"c"> c;
constexpr cleave::dim<"d"> d;
constexpr cleave::dim<"e"> e;
constexpr cleave::dim<"f"> f;
using A = cleave::abstract<float, mesh(a, b, c, batch, embed)>;
using B = cleave::abstract<float, mesh(d, e, f, hidden)>;
constexpr cleave::function outer([](auto x, auto y) {
  return sum(dot(x, y)); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh()>(A, B)>(outer);

int main() {}
