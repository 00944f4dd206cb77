// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a collective on shards takes Views" not_a_view not_a_view.cpp:@here
// needs: runtime
// fix: Pass a Kokkos::View: `out.view<double*>()` of a shard, or one that the kernel allocates.
#include <cleave/cleave.hpp>

namespace fail_test {
inline constexpr cleave::axis<"data"> data;
void sum_up(const cleave::local_context& here, double& total) {
  here.all_reduce(total, cleave::reduction::sum, data); // here
}
} // namespace fail_test

int main() {}
