// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "relates at most 64 dims" too_many_views line<@here> op=rename
// fix: Each pair of dims that a rename, split or merge connects counts once. Go through one common name, `rename(x, a,
// fix: embed)` and then `rename(x, embed, b)`, or plan the computation as several functions.
#include "names.hpp"

#include <string_view>

using namespace fail_test;

constexpr std::string_view names = "abcdefghi";
constexpr cleave::function f([](auto x) {
  cleave::value total = sum(x);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const cleave::value one = rename(x, embed, {names.substr(i, 1)});
    for (std::size_t j = 0; j < names.size(); ++j)
      if (i != j) total = total + sum(rename(one, {names.substr(i, 1)}, {names.substr(j, 1)})); // here
  }
  return total;
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh()>(X)>(f);

int main() {}
