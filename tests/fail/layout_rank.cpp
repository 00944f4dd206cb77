// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor has at most 8 dims" rank_too_high layout_rank.cpp:@here op=layout expected<8> got<9>
// fix: Store dims that always appear together as one dim, with the product of their extents, and `split` it inside the
// fix: function where you need the parts.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim<"a"> a;
constexpr cleave::dim<"b"> b;
constexpr cleave::dim<"c"> c;
constexpr cleave::dim<"d"> d;
constexpr cleave::dim<"e"> e;
constexpr cleave::dim<"f"> f;
using Bad = cleave::abstract<float, mesh(a, b, c, d, e, f, batch, embed, hidden)>; // here
constexpr cleave::function g([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Bad(Bad)>(g);

int main() {}
