// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "more bytes of workspace than the contract allows" workspace_too_large line<@here> op=dot expected<1000000> got<16777216>
// expect: repair=at_most_workspace<16777216>{}
// repair: at_most_workspace<1000000>{}
// fix: The line is that of the operation with the largest buffer. The contract counts bytes for the planned sizes. Give
// fix: your sizes with `cleave::expect<batch, 64>{}`, raise the limit, or shard what the operation makes.
#include "names.hpp"

using namespace fail_test;

using D = cleave::abstract<float, mesh(hidden / model, embed)>;
constexpr cleave::function f([](auto h, auto d) {
  return relu(dot(h, d, hidden)); // here
});
constexpr auto plan = cleave::plan<X(H, D)>(f, cleave::at_most_workspace<1000000>{});

int main() {}
