// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "at most 64 dims with different names" too_many_dims line<@here> op=rename dim=+
// fix: A repeated name counts once. Rename back to an existing dim instead of using a new name for each layer, or plan
// fix: the computation as several functions.
#include "names.hpp"

#include <string_view>

using namespace fail_test;

constexpr std::string_view names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+";
constexpr cleave::function f([](auto x) {
  cleave::value y = rename(x, embed, {names.substr(0, 1)});
  for (std::size_t layer = 1; layer < names.size(); ++layer)
    y = rename(y, {names.substr(layer - 1, 1)}, {names.substr(layer, 1)}); // here
  return sum(y);
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh()>(X)>(f);

int main() {}
