// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decode step: one new token is written into a cache of keys and values, and attends to the positions that are used.
// Against the same by hand, and, in caches of several sizes with equally many used positions, against the smallest
// cache.
//
//   mpirun -n 2 decode_time RESULTS.jsonl [seconds for each measurement]
#include "by_hand_decode.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"feature"> feature;
inline constexpr cleave::dim<"one", 1> one;
/// Places that are read together.
constexpr int block = 64;
inline constexpr cleave::dim<"part", block> part;
using Cache = cleave::tensor<float, mesh(head / line, position, feature)>;
using Row = cleave::tensor<float, mesh(head / line, one, feature)>;
using Query = cleave::tensor<float, mesh(head / line, feature)>;

/// As many blocks of positions are read as have been used. A mask over all positions would read the whole cache.
constexpr cleave::function decode([](auto keys, auto values, auto q, auto k, auto v, auto at) {
  const auto all_keys = cleave::dynamic_update(keys, position, k, one, at);
  const auto all_values = cleave::dynamic_update(values, position, v, one, at);
  const auto scale = rsqrt(cleave::count(q, feature));
  const auto none = cleave::zeros_like(sum(q, feature));
  const auto seen =
      repeat_times(at / block + 1, std::tuple(none - 1e30, none, cleave::zeros_like(q), at - at), [=](auto state) {
        const auto [most, total, mixed, number] = state;
        const auto first = number * block;
        const auto these = cleave::dynamic_slice(all_keys, position, part, first);
        const auto scores = select(cleave::iota(these, part) + first <= at, dot(q, these, feature) * scale, -1e30);
        const auto next = maximum(most, max(scores, part));
        const auto weights = exp(scores - next), fade = exp(most - next);
        return std::tuple(next, total * fade + sum(weights, part),
                          mixed * fade + dot(weights, cleave::dynamic_slice(all_values, position, part, first), part),
                          number + 1);
      });
  return std::tuple(all_keys, all_values, std::get<2>(seen) / std::get<1>(seen));
});

constexpr long heads = 32, features = 128, used = 512;

/// One cache, with its used positions filled alike whatever its size, and tokens that take the later half of them in
/// turn.
struct cached {
  cached(const cleave::grid& grid, long positions)
      : keys(grid, {heads, positions, features}), values(grid, {heads, positions, features}),
        k(grid, {heads, 1, features}), v(grid, {heads, 1, features}), q(grid, {heads, features}),
        out(grid, {heads, features}) {
    const auto wave = [](auto a, auto b, auto c) { return std::sin(static_cast<float>(a * 7 + b * 3 + c)); };
    keys.fill_by([&](const auto& at) { return wave(at[0], at[1], at[2]); });
    values.fill_by([&](const auto& at) { return wave(at[2], at[0], at[1]); });
    k.fill_by([&](const auto& at) { return wave(at[0], 1, at[2]); });
    v.fill_by([&](const auto& at) { return wave(at[0], 2, at[2]); });
    q.fill_by([&](const auto& at) { return wave(at[0], 3, at[1]); });
  }
  int token() { return static_cast<int>(used / 2 + next++ % (used / 2)); }
  void step() { decode(keys, values, q, k, v, token()).into(keys, values, out); }

  Cache keys, values;
  Row k, v;
  Query q, out;
  long next = 0;
};

void measure_all(const measure::task& t) {
  const cleave::grid grid(mesh, t.comm, {t.ranks});
  const auto positions_of = [](long mebibytes) { return mebibytes * (1 << 20) / (2 * heads * features * 4); };
  const std::string where = " on " + std::to_string(t.ranks) + (t.ranks == 1 ? " rank" : " ranks");
  cached smallest(grid, positions_of(16));
  const long mine = static_cast<long>(smallest.q.local_extents()[0]);
  for (const long mebibytes : {16L, 128L, 1024L}) {
    const std::string name = "decode step, " + std::to_string(used) + " positions used of a cache of " +
                             std::to_string(mebibytes) + " MiB";
    cached ours(grid, positions_of(mebibytes));
    by_hand::decoder hand(mine, positions_of(mebibytes), features);
    std::copy_n(ours.keys.data(), ours.keys.local_size(), hand.keys.data());
    std::copy_n(ours.values.data(), ours.values.local_size(), hand.values.data());
    long next = 0;
    const auto theirs = [&] { hand.step(ours.q.data(), ours.k.data(), ours.v.data(), used / 2 + next++ % (used / 2)); };
    for (int i = 0; i < 3; ++i) ours.step(), theirs();
    double off = 0, size = 0;
    for (long i = 0; i < mine * features; ++i) {
      const double theirs_at = static_cast<double>(hand.out[static_cast<std::size_t>(i)]);
      off = std::max(off, std::fabs(static_cast<double>(ours.out.data()[i]) - theirs_at));
      size = std::max(size, std::fabs(theirs_at));
    }
    if (!(off <= 1e-4 * size)) throw std::runtime_error("the two programs differ in the decode step");
    // Three quarters of the used positions are read on average, keys and values.
    const double bytes = 2.0 * 0.75 * static_cast<double>(used * heads * features) * sizeof(float);
    t.out.factor(
        name + where,
        measure::compare(t.comm, 2, t.seconds, [&] { ours.step(); }, theirs), 1.3, measure::work::bytes(bytes));
    if (mebibytes > 16)
      t.out.growth(name + ", against 16 MiB" + where,
                   measure::compare(
                       t.comm, 2, t.seconds, [&] { ours.step(); }, [&] { smallest.step(); }),
                   1.1, "the smallest cache");
  }
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 2, measure_all); }
