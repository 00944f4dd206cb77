// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "must have an integer element type" not_an_index line<@here> op=one_hot
// fix: Store labels as integers, or cast them: `one_hot(cast<int>(labels), hidden)`.
#include "names.hpp"

using namespace fail_test;

using Labels = cleave::abstract<float, mesh(batch / data)>;
using Y = cleave::abstract<float, mesh(batch / data, hidden)>;
constexpr cleave::function f([](auto labels) {
  return one_hot(labels, hidden); // here
});
constexpr auto plan = cleave::plan<Y(Labels)>(f);

int main() {}
