// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists of axes, coordinates and nesting against plain models, by compiling and by running.
#include <cleave/layout/moved.hpp>
#include <cleave/type/tensor_type.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr axis_list list_of(std::initializer_list<int> axes) {
  axis_list l;
  for (int a : axes) l.push_back(a);
  return l;
}
constexpr axis_sizes sizes_of(std::initializer_list<std::int64_t> n) {
  axis_sizes s;
  int a = 0;
  for (std::int64_t size : n) s[a++] = size;
  return s;
}

static_assert(list_of({}).empty() && list_of({}).mask() == 0 && list_of({6, 0, 3}).size() == 3);
static_assert(list_of({6, 0, 3})[0] == 6 && list_of({6, 0, 3})[2] == 3 &&
              list_of({6, 0, 3}).prefix(2) == list_of({6, 0}));
static_assert(list_of({0, 1, 2, 3, 4, 5, 6}).size() == max_axes &&
              list_of({0, 1, 2, 3, 4, 5, 6}).prefix(7) == list_of({0, 1, 2, 3, 4, 5, 6}));
static_assert(list_of({2, 1}).common_prefix(list_of({2, 0})) == 1 && list_of({2}).common_prefix(list_of({})) == 0);
static_assert(essential(list_of({0, 1, 2}), sizes_of({2, 1, 3})) == list_of({0, 2}));
static_assert(sizes_of({2, 3, 4}).product(list_of({2, 0})) == 8 && sizes_of({2, 3, 4}).product(axis_set{0b110}) == 12);
static_assert(block_index(list_of({1, 0}), {1, 2}, sizes_of({2, 3})) == 2 * 2 + 1);
static_assert(held({10}, list_of({0, 1}), {1, 1}, sizes_of({2, 2})) == range{9, 10} &&
              held({0}, list_of({0}), {1}, sizes_of({2})) == range{0, 0});

TEST(Axes, ListsBehaveLikeVectors) {
  std::mt19937 random(1);
  for (int n = 0; n < 500; ++n) {
    std::vector<int> a{0, 1, 2, 3, 4, 5, 6}, b = a;
    std::shuffle(a.begin(), a.end(), random);
    if (random() % 2 != 0) b = a;
    else std::shuffle(b.begin(), b.end(), random);
    a.resize(random() % 8);
    b.resize(random() % 8);
    axis_list x, y;
    for (int axis : a) x.push_back(axis);
    for (int axis : b) y.push_back(axis);
    ASSERT_EQ(x.size(), static_cast<int>(a.size()));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(x[static_cast<int>(i)], a[i]);
    for (int axis = 0; axis < max_axes; ++axis)
      ASSERT_EQ(x.contains(axis), std::find(a.begin(), a.end(), axis) != a.end());
    ASSERT_EQ(x == y, a == b);
    const auto common = static_cast<int>(
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin())
            .first -
        a.begin());
    ASSERT_EQ(x.common_prefix(y), common);
    ASSERT_EQ(x.starts_with(y), b.size() <= a.size() && common == static_cast<int>(b.size()));
    if (!a.empty()) {
      a.pop_back();
      axis_list shorter;
      for (int axis : a) shorter.push_back(axis);
      x.pop_back();
      ASSERT_EQ(x, shorter);
    }
  }
}

TEST(Axes, CoordinatesCountWithTheLastAxisFastest) {
  for (const axis_sizes& sizes :
       {sizes_of({}), sizes_of({5}), sizes_of({2, 3}), sizes_of({1, 4, 1, 2}), sizes_of({2, 2, 2, 2, 1, 3, 2})}) {
    coordinates expected{};
    for (std::int64_t d = 0; d < sizes.devices(); ++d) {
      ASSERT_EQ(coordinates_of(d, sizes), expected);
      ASSERT_EQ(device_of(expected, sizes), d);  // (1)
      for (std::size_t a = max_axes; a-- > 0;) {
        if (++expected[a] < sizes.of[a]) break;
        expected[a] = 0;
      }
    }
  }
}

TEST(Axes, SetsBehaveLikeBits) {
  for (unsigned a = 0; a < 128; ++a) {
    const axis_set x = a;
    int members = 0, last = -1;
    for (int axis : x) {
      ASSERT_TRUE(x.contains(axis) && axis > last);
      last = axis;
      ++members;
    }
    ASSERT_EQ(members, x.size());
    ASSERT_EQ(x.empty(), a == 0);
    ASSERT_EQ((~x).bits(), ~a & 127u);
    for (int axis = 0; axis < max_axes; ++axis) {
      ASSERT_EQ(x.contains(axis), (a >> axis & 1u) != 0);
      ASSERT_EQ(x.with(axis).bits(), a | 1u << axis);
      ASSERT_EQ(x.without(axis).bits(), a & ~(1u << axis));
    }
    for (unsigned b = 0; b < 128; ++b) {
      const axis_set y = b;
      ASSERT_EQ((x | y).bits(), a | b);
      ASSERT_EQ((x & y).bits(), a & b);
      ASSERT_EQ((x - y).bits(), a & ~b);
      ASSERT_EQ((x ^ y).bits(), a ^ b);
      ASSERT_EQ(x.meets(y), (a & b) != 0);
      ASSERT_EQ(x.includes(y), (b & ~a) == 0);
      ASSERT_EQ(x == y, a == b);
    }
  }
  static_assert(axis_set::first(max_axes).bits() == 127 && axis_set::first(0).empty());
  static_assert(dim_set::first(max_dims).bits() == ~std::uint64_t{0} && dim_set::of(63).bits() == std::uint64_t{1}
                                                                                                      << 63);
}

TEST(Axes, DevicesAreFoundByTheirIndexAlongSomeAxes) {
  const axis_sizes sizes = sizes_of({2, 1, 3, 2});
  for (unsigned bits = 0; bits < 16; ++bits) {
    const axis_set axes = bits;
    for (std::int64_t d = 0; d < sizes.devices(); ++d) {
      const coordinates at = coordinates_of(d, sizes);
      for (std::int64_t index = 0; index < sizes.product(axes); ++index) {
        const coordinates there = moved_along(axes, at, index, sizes);
        ASSERT_EQ(index_along(axes, there, sizes), index);  // (1)
        ASSERT_TRUE(same_along(~axes, there, at));          // (2)
      }
      ASSERT_EQ(moved_along(axes, at, index_along(axes, at, sizes), sizes), at);
    }
  }
}

TEST(Axes, BlocksNestExactlyWhereEveryFineOneLiesInItsCoarseOne) {
  const axis_list fine = list_of({0, 1, 2});
  for (std::int64_t p = 1; p <= 4; ++p)
    for (std::int64_t q = 1; q <= 4; ++q)
      for (std::int64_t r = 1; r <= 3; ++r)
        for (std::int64_t extent = 0; extent <= 40; ++extent)
          for (int cut = 0; cut <= 3; ++cut) {
            const axis_sizes sizes = sizes_of({p, q, r});
            bool inside = true;
            for (std::int64_t d = 0; d < sizes.devices(); ++d) {
              const coordinates at = coordinates_of(d, sizes);
              const range small = held({extent}, fine, at, sizes), wide = held({extent}, fine.prefix(cut), at, sizes);
              inside = inside && (small.size() == 0 || (small.begin >= wide.begin && small.end <= wide.end));
            }
            ASSERT_EQ(nests({extent}, fine.prefix(cut), fine, sizes), inside)
                << extent << " over " << p << " " << q << " " << r << " cut " << cut;  // (1)
            ASSERT_TRUE(nests({extent}, {}, fine, sizes) && nests({extent}, fine, fine, sizes));  // (2)
          }
}

TEST(Axes, SmallestPartIsTheLeastThatAnyScatteredDeviceKeepsOfTheFirstBlock) {
  // Over x then y; y is scattered.
  for (std::int64_t p = 1; p <= 3; ++p)
    for (std::int64_t q = 1; q <= 4; ++q)
      for (std::int64_t extent = 0; extent <= 30; ++extent) {
        const axis_sizes sizes = sizes_of({p, q});
        shape global;
        global.rank = 1;
        global[0] = extent;
        layout from, to;
        from.set(0, list_of({0}));
        to.set(0, list_of({0, 1}));
        if (!nests({extent}, from[0], to[0], sizes)) continue;
        std::int64_t least = extent;
        for (std::int32_t y = 0; y < q; ++y) least = std::min(least, held({extent}, to[0], {0, y}, sizes).size());
        ASSERT_EQ(smallest_part(global, from, to, axis_bit(1), sizes), least);
      }
}

} // namespace CLEAVE_SOURCE
