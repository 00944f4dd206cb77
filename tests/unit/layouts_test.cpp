// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The algebra of layouts against ownership enumerated element by element.
#include <cleave/cost/reshard.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;

struct random_case {
  axis_sizes sizes;
  shape global;
  layout from, to;
  int axes;
};

class generator {
 public:
  explicit generator(unsigned seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  layout some_layout(int rank, int axes) {
    layout l;
    for (int a = 0; a < axes; ++a)
      if (const int i = below(rank + 1); i < rank) l.append(i, a);
    // Axes come in any order, not only rising.
    for (int i = 0; i < rank; ++i)
      if (below(2) != 0 && l[i].size() > 1) {
        axis_list turned;
        for (int j = l[i].size(); j-- > 0;) turned.push_back(l[i][j]);
        l.set(i, turned);
      }
    return l;
  }
  random_case next(int largest_extent) {
    random_case c;
    c.axes = 1 + below(4);
    for (int a = 0; a < c.axes; ++a) c.sizes[a] = 1 + below(c.axes > 2 ? 3 : 4);
    c.global.rank = 1 + below(3);
    for (int i = 0; i < c.global.rank; ++i) {
      c.global[i] = below(largest_extent + 1);
      if (below(3) == 0) c.global.given[i] = table(c.global[i]);
    }
    c.from = some_layout(c.global.rank, c.axes);
    c.to = some_layout(c.global.rank, c.axes);
    return c;
  }

  /// Blocks of any sizes, many of them empty.
  const block_table* table(std::int64_t extent) {
    block_table& made = tables_.emplace_back();
    for (int n = 1 + below(8); n-- > 1;) made.begins.push_back(below(static_cast<int>(extent) + 1));
    made.begins.push_back(0);
    made.begins.push_back(extent);
    std::sort(made.begins.begin(), made.begins.end());
    return &made;
  }

 private:
  std::mt19937 random_;
  std::list<block_table> tables_{};
};

/// Which of the blocks of a table has an index; the number of these blocks is a divisor of `parts` or a multiple of it.
std::int64_t owner_in(const block_table& given, std::int64_t parts, std::int64_t index) {
  std::int64_t k = 0;
  while (index >= given.begins[k + 1]) ++k;
  if (given.count() >= parts) return k / (given.count() / parts);
  const std::int64_t cut = parts / given.count(), length = given.begins[k + 1] - given.begins[k];
  return k * cut + (index - given.begins[k]) / ((length + cut - 1) / cut);
}
/// Whether a device holds a global index, from the definition of blocks alone.
bool holds(const random_case& c, const layout& l, const coordinates& at, const std::array<std::int64_t, 3>& index) {
  for (int i = 0; i < c.global.rank; ++i) {
    std::int64_t parts = 1, mine = 0;
    for (int j = 0; j < l[i].size(); ++j) {
      parts *= c.sizes[l[i][j]];
      mine = mine * c.sizes[l[i][j]] + at[static_cast<std::size_t>(l[i][j])];
    }
    const block_table* const given = c.global.given[i];
    if (given != nullptr && (given->count() % parts == 0 || parts % given->count() == 0)) {
      if (owner_in(*given, parts, index[static_cast<std::size_t>(i)]) != mine) return false;
      continue;
    }
    const std::int64_t block = (c.global[i] + parts - 1) / parts;
    if (block == 0 || index[static_cast<std::size_t>(i)] / block != mine) return false;
  }
  return true;
}

template <class F>
void for_each_element(const shape& s, F&& f) {
  std::array<std::int64_t, 3> extents{1, 1, 1};
  for (int i = 0; i < s.rank; ++i) extents[static_cast<std::size_t>(i)] = s[i];
  for (std::int64_t a = 0; a < extents[0]; ++a)
    for (std::int64_t b = 0; b < extents[1]; ++b)
      for (std::int64_t d = 0; d < extents[2]; ++d) f(std::array<std::int64_t, 3>{a, b, d});
}

TEST(Layouts, EveryElementIsHeldOncePerReplica) {
  generator g(1);
  for (int n = 0; n < 300; ++n) {
    const random_case c = g.next(9);
    const std::int64_t replicas = c.sizes.devices() / c.sizes.product(c.from.sharded());
    std::vector<std::int64_t> count(static_cast<std::size_t>(c.sizes.devices()), 0);
    for_each_element(c.global, [&](const auto& index) {
      std::int64_t holders = 0;
      for (std::int64_t d = 0; d < c.sizes.devices(); ++d)
        if (holds(c, c.from, coordinates_of(d, c.sizes), index)) ++holders, ++count[static_cast<std::size_t>(d)];
      ASSERT_EQ(holders, replicas);
    });
    std::int64_t largest = 0;
    for (std::int64_t d = 0; d < c.sizes.devices(); ++d) {
      const coordinates at = coordinates_of(d, c.sizes);
      ASSERT_EQ(local_shape(c.global, c.from, at, c.sizes).elements(), count[static_cast<std::size_t>(d)]);
      largest = std::max(largest, count[static_cast<std::size_t>(d)]);
    }
    ASSERT_EQ(largest_shape(c.global, c.from, c.sizes).elements(), largest);
  }
}

TEST(Layouts, MovedIsWhatTheBusiestDeviceLacks) {
  generator g(2);
  for (int n = 0; n < 600; ++n) {
    random_case c = g.next(8);
    if (n % 2 == 0)  // the closed form for even blocks
      for (int i = 0; i < c.global.rank; ++i) c.global[i] = c.sizes.devices(), c.global.given[i] = nullptr;
    if (c.global.elements() > 4000) continue;
    std::int64_t busiest = 0;
    for (std::int64_t d = 0; d < c.sizes.devices(); ++d) {
      const coordinates at = coordinates_of(d, c.sizes);
      std::int64_t lacks = 0;
      for_each_element(c.global,
                       [&](const auto& index) { lacks += holds(c, c.to, at, index) && !holds(c, c.from, at, index); });
      busiest = std::max(busiest, lacks);
    }
    ASSERT_EQ(moved(c.global, c.from, c.to, c.sizes), busiest) << "case " << n;  // (1)
    ASSERT_EQ(moved(c.global, c.from, c.from, c.sizes), 0);                      // (2)
    ASSERT_LE(busiest, largest_shape(c.global, c.to, c.sizes).elements());       // (3)
  }
}

TEST(Layouts, ADetourMovesNoLess) {
  generator g(6);
  for (int n = 0; n < 2000; ++n) {
    random_case c = g.next(8);
    const random_case other = g.next(8);
    if (n % 2 == 0)
      for (int i = 0; i < c.global.rank; ++i) c.global[i] = c.sizes.devices(), c.global.given[i] = nullptr;
    layout by;
    for (int i = 0; i < c.global.rank; ++i)
      for (int k = 0; i < other.global.rank && k < other.from[i].size(); ++k)
        if (other.from[i][k] < c.axes) by.append(i, other.from[i][k]);
    const auto along = [&](const layout& a, const layout& b) { return moved(c.global, a, b, c.sizes); };
    ASSERT_LE(along(c.from, c.to), along(c.from, by) + along(by, c.to)) << "case " << n;  // (4)
  }
}

TEST(Layouts, NestedBlocksLieInTheirPrefix) {
  generator g(3);
  for (int n = 0; n < 500; ++n) {
    random_case c = g.next(12);
    const axis_list fine = c.from[0];
    for (int cut = 0; cut <= fine.size(); ++cut) {
      bool inside = true;
      for (std::int64_t d = 0; d < c.sizes.devices(); ++d) {
        const coordinates at = coordinates_of(d, c.sizes);
        const range small = held(c.global.along(0), fine, at, c.sizes),
                    wide = held(c.global.along(0), fine.prefix(cut), at, c.sizes);
        inside = inside && (small.size() == 0 || (small.begin >= wide.begin && small.end <= wide.end));
      }
      // Nested blocks lie inside; equal blocks may happen to lie inside for some extents without nesting in general.
      const bool nested = nests(c.global.along(0), fine.prefix(cut), fine, c.sizes);
      ASSERT_TRUE(inside || !nested);
      ASSERT_TRUE(nested == inside || c.global.given[0] == nullptr);
    }
  }
}

TEST(Reshard, APathEndsWhereItShouldAndNeverCostsMoreThanOneExchange) {
  generator g(4);
  const policy rule = policy::bytes_first(1);
  for (int n = 0; n < 1000; ++n) {
    const random_case c = g.next(12);
    const path p = find_path(c.global, 4, c.from, c.to, c.sizes, rule);
    layout at = c.from;
    cost total;
    for (const hop& h : p.hops) {
      total += price_of(h, at, c.global, 4, c.sizes);
      at = h.to;
    }
    ASSERT_EQ(at, c.to);
    ASSERT_EQ(total, p.price);
    ASSERT_LE(p.price.bytes, 4 * moved(c.global, c.from, c.to, c.sizes));
  }
}

TEST(Reshard, PartialAxesAreResolvedOnce) {
  generator g(5);
  for (int n = 0; n < 500; ++n) {
    random_case c = g.next(12);
    for (int a = 0; a < c.axes; ++a)
      if ((c.from.sharded() >> a & 1) == 0 && g.below(2) != 0)
        c.from.set_partial(static_cast<axis_set>(c.from.unreduced() | axis_bit(a)));
    const path p = find_path(c.global, 4, c.from, c.to, c.sizes, policy::time());
    layout at = c.from;
    for (const hop& h : p.hops) {
      // Each hop only resolves partial axes, or leaves them alone.
      ASSERT_EQ(h.to.unreduced() & ~at.unreduced(), 0);
      if (h.to.unreduced() != at.unreduced()) {
        ASSERT_TRUE(h.move == kind::all_reduce || h.move == kind::reduce_scatter);
      }
      at = h.to;
    }
    ASSERT_EQ(at, c.to);
  }
}

} // namespace CLEAVE_SOURCE
