// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/storage/box.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

// Copies of boxes between strided arrays, as a whole or in ranges, beside a loop over all elements. On the host: in the
// caches or past them, by one thread or by several.

namespace CLEAVE_SOURCE {

using namespace cleave;

struct random_box {
  /// From one array to the other, to a packed one, and from there.
  box_copy copy, pack, unpack;
  std::int64_t from_elements, to_elements;
};
random_box box_of(const shape& extents, const strides& from, std::int64_t from_first, const strides& to,
                  std::int64_t to_first, std::int64_t from_elements, std::int64_t to_elements) {
  const strides packed = strides_of(extents);
  return {make_copy(extents, from, from_first, to, to_first), make_copy(extents, from, from_first, packed, 0),
          make_copy(extents, packed, 0, to, to_first), from_first + from_elements, to_first + to_elements};
}
/// A box in two arrays that are larger than it, and whose dims may be in other orders.
random_box random_copy(std::mt19937& next, std::int64_t most) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(next() % static_cast<std::uint32_t>(n)); };
  shape extents, around_from, around_to;
  extents.rank = around_from.rank = around_to.rank = static_cast<int>(1 + below(3));
  std::int64_t left = most;
  for (int i = extents.rank - 1; i >= 0; --i) {
    extents[i] = 1 + below(i == 0 ? left : std::min<std::int64_t>(left, 400));
    while (left > 1 && left * extents[i] > most) --left;
    around_from[i] = extents[i] + below(3);
    around_to[i] = extents[i] + below(3);
  }
  strides from = strides_of(around_from), to = strides_of(around_to);
  if (extents.rank > 1 && below(3) == 0) {
    // The last two dims change places where the box is written.
    const int i = extents.rank - 2;
    to[i] = 1;
    to[i + 1] = around_to[i];
    for (int k = i; k-- > 0;) to[k] = k + 1 == i ? around_to[i] * around_to[i + 1] : to[k + 1] * around_to[k + 1];
  }
  const std::int64_t first = below(5), second = below(40);
  return box_of(extents, from, first, to, second, around_from.elements(), around_to.elements());
}

template <class Visit>
void for_each_element(const box_copy& c, const Visit& visit) {
  for (std::int64_t flat = 0; flat < c.elements; ++flat) {
    std::int64_t rest = flat, from = c.from_offset, to = c.to_offset;
    for (int i = c.rank - 1; i >= 0; --i) {
      const std::int64_t at = rest % c.extent[i];
      rest /= c.extent[i];
      from += at * c.from[i];
      to += at * c.to[i];
    }
    visit(from, to);
  }
}

using bytes = std::vector<unsigned char>;
bytes noise(std::int64_t n) {
  static bytes all;
  static std::mt19937 next(7);
  while (std::ssize(all) < n) all.push_back(static_cast<unsigned char>(next()));
  return {all.begin(), all.begin() + n};
}
/// What a copy makes of an array: `run(from, to)` is given memory of shards.
template <class Run>
bytes copied(const bytes& from, const bytes& to, const Run& run) {
  const support::on_device<unsigned char> source(from), target(to);
  run(source.data(), target.data());
  return target.read();
}
void copy_element(bytes& to, std::int64_t at, const bytes& from, std::int64_t from_at, std::int64_t size) {
  std::memcpy(to.data() + at * size, from.data() + from_at * size, static_cast<std::size_t>(size));
}

void check_box(const random_box& b, std::int64_t size, stores how) {
  const box_copy& c = b.copy;
  const bytes from = noise(b.from_elements * size);
  bytes want(static_cast<std::size_t>(b.to_elements * size), 0xee);
  const bytes before = want;
  for_each_element(c, [&](std::int64_t at, std::int64_t into) { copy_element(want, into, from, at, size); });
  EXPECT_TRUE(want ==
              copied(from, before, [&](const void* source, void* target) { copy_box(c, source, target, size, how); }));
}
/// Packed in ranges, and unpacked in others.
void check_ranges(const random_box& b, std::int64_t size, stores how) {
  const std::int64_t elements = b.copy.elements;
  const bytes from = noise(b.from_elements * size);
  const auto in_parts = [&](std::int64_t parts, const auto& run) {
    const std::int64_t part = elements / parts + 1;
    for (std::int64_t first = 0; first < elements; first += part) run(first, std::min(part, elements - first));
  };
  bytes want(static_cast<std::size_t>(elements * size));
  const bytes blank = want;
  for_each_element(b.pack, [&](std::int64_t at, std::int64_t into) { copy_element(want, into, from, at, size); });
  const bytes packed = copied(from, blank, [&](const void* source, unsigned char* target) {
    in_parts(3, [&](std::int64_t first, std::int64_t n) {
      pack_range(b.pack, first, n, source, target + first * size, size, how);
    });
  });
  EXPECT_TRUE(packed == want);

  bytes spread(static_cast<std::size_t>(b.to_elements * size), 0xee);
  const bytes before = spread;
  for_each_element(b.unpack, [&](std::int64_t at, std::int64_t into) { copy_element(spread, into, packed, at, size); });
  EXPECT_TRUE(spread == copied(packed, before, [&](const unsigned char* source, void* target) {
                in_parts(2, [&](std::int64_t first, std::int64_t n) {
                  unpack_range(b.unpack, first, n, source + first * size, target, size, how);
                });
              }));
}

void check_all() {
  std::mt19937 next(1);
  for (int k = 0; k < 24; ++k)
    for (std::int64_t size : {1, 2, 4, 8, 16}) {
      const random_box b = random_copy(next, k < 12 ? 300 : 20000);
      for (stores how : {stores::in_caches, stores::non_temporal}) {
        if (!on_host && how == stores::non_temporal) continue; // the host's way
        check_box(b, size, how);
        check_ranges(b, size, how);
      }
    }
}
TEST(box_copies, in_memory_of_shards) { check_all(); }
TEST(box_copies, by_several_threads) {
  if (!on_host) GTEST_SKIP() << "threads of the host share no copies of a device";
  const support::three_threads given;
  check_all();
  EXPECT_GT(given.parallel, 10);
}
// One run, and one transposition: their parts are shared.
TEST(box_copies, long_ones_are_divided) {
  if (!on_host) GTEST_SKIP() << "threads of the host share no copies of a device";
  support::three_threads given;
  shape run, turned;
  run.rank = 1;
  run[0] = 700001;
  turned.rank = 2;
  turned[0] = 503;
  turned[1] = 701;
  strides across{};
  across[0] = 1;
  across[1] = 503;
  const random_box boxes[] = {box_of(run, strides_of(run), 3, strides_of(run), 1, run.elements(), run.elements()),
                              box_of(turned, strides_of(turned), 3, across, 1, turned.elements(), turned.elements())};
  for (const random_box& b : boxes)
    for (stores how : {stores::in_caches, stores::non_temporal}) {
      given.parallel = 0;
      check_box(b, 4, how);
      EXPECT_EQ(given.parallel, 1);
    }
}

} // namespace CLEAVE_SOURCE
