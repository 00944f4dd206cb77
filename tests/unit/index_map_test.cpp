// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The laws of index maps, index by index.
#include <cleave/layout/index_map.hpp>

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;

struct random_map {
  index_map map;
  range to;
};
random_map next(std::mt19937& random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  random_map r;
  r.map.extent = below(9);
  r.map.offset = below(15) - 7;
  r.map.outside = static_cast<border>(below(4));
  if (below(2) == 0) {
    r.map.stride = below(7) - 3;
  } else {
    r.map.stride = below(2) == 0 ? 1 : -1;
    r.map.divisor = 1 + below(4);
    r.map.floors = below(2) == 0;
  }
  r.to.begin = below(6) - 3;
  r.to.end = r.to.begin + below(12);
  return r;
}
/// How often each index is a source.
std::map<std::int64_t, int> sources(const std::vector<index_run>& runs) {
  std::map<std::int64_t, int> count;
  for (const index_run& r : runs)
    for (std::int64_t k = 0; k < r.count; ++k) ++count[r.from + k * r.from_step];
  return count;
}

TEST(IndexMaps, RunsFillEveryIndexOnce) {
  std::mt19937 random(1);
  for (int n = 0; n < 20000; ++n) {
    const random_map r = next(random);
    std::map<std::int64_t, std::int64_t> from;
    for (const index_run& run : runs_of(r.map, r.to))
      for (std::int64_t k = 0; k < run.count; ++k) {
        const std::int64_t t = r.to.begin + run.to + k * run.to_step;
        ASSERT_TRUE(from.emplace(t, run.from + k * run.from_step).second);  // (1)
        ASSERT_TRUE(t >= r.to.begin && t < r.to.end);
      }
    for (std::int64_t t = r.to.begin; t < r.to.end; ++t) {
      const std::int64_t source = r.map.source(t);
      ASSERT_EQ(from.count(t), source >= 0 ? 1u : 0u);  // (1)
      if (source >= 0) {
        ASSERT_EQ(from[t], source);  // (2)
      }
    }
  }
}

TEST(IndexMaps, DistinctSourcesAreTheSourcesOnce) {
  std::mt19937 random(2);
  for (int n = 0; n < 20000; ++n) {
    const random_map r = next(random);
    const std::vector<index_run> runs = runs_of(r.map, r.to), once = distinct_sources(runs);
    const std::map<std::int64_t, int> all = sources(runs), kept = sources(once);
    ASSERT_EQ(all.size(), kept.size());
    for (const auto& [index, times] : kept) {
      ASSERT_EQ(all.count(index), 1u);  // (1)
      ASSERT_EQ(times, 1);              // (3)
    }
    std::int64_t number = 0;
    for (const index_run& run : once) {
      ASSERT_EQ(run.to, number);  // (2)
      ASSERT_EQ(run.to_step, 1);
      number += run.count;
    }
    ASSERT_EQ(count_of(once), number);
  }
}

TEST(IndexMaps, TheElementsOfABlockAreWithinIt) {
  std::mt19937 random(3);
  for (int n = 0; n < 20000; ++n) {
    const random_map r = next(random);
    const std::int64_t begin = static_cast<std::int64_t>(random() % 9),
                       end = begin + static_cast<std::int64_t>(random() % 5);
    for (const index_run& run : runs_of(r.map, r.to)) {
      std::map<std::int64_t, std::int64_t> wanted, have;
      for (std::int64_t k = 0; k < run.count; ++k)
        if (const std::int64_t from = run.from + k * run.from_step; from >= begin && from < end)
          wanted[run.to + k * run.to_step] = from;
      const index_run part = within(run, {begin, end});
      for (std::int64_t k = 0; k < part.count; ++k) have[part.to + k * part.to_step] = part.from + k * part.from_step;
      ASSERT_EQ(have, wanted);  // (1)
    }
  }
}

} // namespace CLEAVE_SOURCE
