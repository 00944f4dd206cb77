// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether the parts that a collective takes lie in the memory of a shard one after another, beside a loop over all
// devices that take part.
#include <cleave/program/move_scratch.hpp>

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace cleave;
using comm::transfer;

/// -1: the parts are not the shard.
int in_order_by_a_loop(const transfer& t, const axis_sizes& sizes, const coordinates& here, const box& shard,
                       const layout& apart) {
  comm::parts_in_order all;
  for (std::int64_t r = 0; r < sizes.product(t.axes); ++r) {
    const box part = box_of(t.global, apart, moved_along(t.axes, here, r, sizes), sizes);
    const box_copy c = copy_to_packed(intersect(shard, part), shard, 0);
    all.append(c, c.from_offset);
  }
  return all.elements == shard.elements() ? static_cast<int>(all.direct) : -1;
}

TEST(move_scratch, knows_whether_parts_are_in_order) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int direct = 0, packed = 0;
  for (int c = 0; c < 6000; ++c) {
    transfer t;
    t.element = element::f32;
    t.global.rank = 1 + below(3);
    for (int i = 0; i < t.global.rank; ++i) t.global[i] = 1 + below(c % 2 == 0 ? 13 : 5);
    axis_sizes sizes;
    for (int a = 0; a < 3; ++a) {
      sizes[a] = 1 + below(4);
      if (below(4) == 0) continue;
      const int dim = below(t.global.rank);
      t.from.set(dim, below(2) == 0 ? t.from[dim].then(axis_list{a}) : axis_list{a}.then(t.from[dim]));
    }
    // Some axes at the ends of lists are gathered, go to the end of another dim, or change places.
    t.to = t.from;
    for (int n = 0; n < 2; ++n) {
      const int dim = below(t.global.rank);
      axis_list list = t.to[dim];
      if (list.empty() || list != t.from[dim]) continue;
      axis_list moved;
      for (int m = 1 + below(3); m > 0 && !list.empty(); --m) {
        const int axis = list[list.size() - 1];
        t.axes = t.axes.with(axis);
        list.pop_back();
        moved = below(2) == 0 ? moved.then(axis_list{axis}) : axis_list{axis}.then(moved);
      }
      t.to.set(dim, below(4) == 0 ? list.then(moved) : list);
      if (t.to[dim] != list) continue;
      if (const int other = below(t.global.rank); other != dim && below(2) == 0 && t.to[other] == t.from[other])
        t.to.set(other, t.to[other].then(moved));
    }
    if (t.axes.empty() || !comm::stays_in_blocks(t, sizes)) continue;
    for (std::int64_t d = 0; d < sizes.devices(); ++d) {
      const coordinates here = coordinates_of(d, sizes);
      const int gathers = in_order_by_a_loop(t, sizes, here, comm::held_after(t, here, sizes), t.from);
      const int scatters = in_order_by_a_loop(t, sizes, here, comm::held_before(t, here, sizes), t.to);
      if (gathers >= 0) {
        ASSERT_EQ(comm::detail::gathered_parts(t, sizes, here).direct, gathers == 1)
            << "case " << c << ", device " << d;
      }
      if (scatters >= 0) {
        ASSERT_EQ(comm::detail::scattered_parts(t, sizes, here).direct, scatters == 1)
            << "case " << c << ", device " << d;
      }
      direct += (gathers == 1) + (scatters == 1);
      packed += (gathers == 0) + (scatters == 0);
    }
  }
  EXPECT_GT(direct, 1000);
  EXPECT_GT(packed, 1000);
}

} // namespace
