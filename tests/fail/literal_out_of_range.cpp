// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: literal_does_not_fit "holds integers or bools, which cannot represent it" line<@here> op=add
// fix: Cast to a type that has the number: `cast<std::int64_t>(i) + 3000000000`.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto i) {
  return i + 3000000000; // here
});
constexpr auto plan = cleave::plan<I(I)>(f);

int main() {}
