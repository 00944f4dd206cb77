// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/cost/policy.hpp>
#include <cleave/layout/moved.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace cleave { inline namespace v0 {

/// The collectives and local moves of a plan.
enum class kind : std::uint8_t {
  none,
  slice,
  mask,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  collective_permute,
  /// Elements under other indices: each device fetches the elements that it lacks. Halos, shifts, slices,
  /// concatenations, look-ups, sorting.
  exchange,
  /// One value for each slice, combined over the devices before: an exclusive prefix scan.
  scan,
};

/// One move of a path: the collective, the axes over which devices take part, the layout reached.
struct hop {
  kind move = kind::none;
  axis_set axes{};
  layout to{};
};

/// A value that is moved from a layout, for given sizes.
struct moved_value {
  const layout& from;
  const shape& global;
  std::int64_t element_bytes;
  const axis_sizes& sizes;

  constexpr std::int64_t most_elements() const { return largest_elements(global, from, sizes); }
};

/// One collective, one entry.
struct collective_entry {
  kind what;
  std::string_view name;
  /// The price of moving a value so, for any sizes; null: nothing, or the price is that of the operation whose step it
  /// is part of.
  optional_function<cost(const moved_value&, const hop&)> price{};
  /// Whether it takes a value from one layout to another; null: it is part of an operation's step, never a move.
  optional_function<bool(const layout& from, const hop&)> legal{};
  /// Why a plan has it; `%` stands for its axes. Empty: the operation says why.
  std::string_view reason;
  /// Whether devices wait for each other.
  bool communicates = true;
};

namespace collectives {

/// Messages that a device waits for in a tree or ring over n devices.
constexpr std::int64_t rounds(std::int64_t n) {
  std::int64_t r = 0;
  for (std::int64_t reach = 1; reach < n; reach *= 2) ++r;
  return r;
}

constexpr bool same_partial(const layout& from, const layout& to) {
  return ((from.word ^ to.word) & ~layout::dims_mask) == 0;
}
constexpr axis_set joined(axis_set a, axis_set b) { return a | b; }

/// Bytes that the busiest device receives. Nobody waits if there are none.
constexpr std::int64_t received(const moved_value& v, const hop& h) {
  return moved(v.global, v.from, h.to, v.sizes) * v.element_bytes;
}

constexpr cost price_of_permute(const moved_value& v, const hop& h) {
  const std::int64_t bytes = received(v, h);
  if (bytes == 0) return {};
  std::int64_t peers = 1;
  const block_counts p(v.from, v.sizes), q(h.to, v.sizes);
  for (int i = 0; i < v.global.rank; ++i)
    if (p.of[i] > q.of[i]) peers *= p.of[i] / q.of[i];
  return {bytes, peers};
}
constexpr bool permutes(const layout& from, const hop& h) { return same_partial(from, h.to); }

constexpr bool slices(const layout& from, const hop& h) {
  return same_partial(from, h.to) && h.to.continues(from) && h.to.sharded() == joined(from.sharded(), h.axes);
}
constexpr bool masks(const layout& from, const hop& h) {
  return from.same_dims(h.to) && h.to.unreduced() == joined(from.unreduced(), h.axes);
}

constexpr cost price_of_all_reduce(const moved_value& v, const hop& h) {
  const std::int64_t n = v.sizes.product(h.axes);
  if (n == 1) return {};
  // Twice the n - 1 of n parts, without a product of bytes and devices: that may be more than a number holds.
  const std::int64_t twice = 2 * v.most_elements() * v.element_bytes;
  return {twice - (twice + n - 1) / n, 2 * rounds(n)};
}
constexpr bool all_reduces(const layout& from, const hop& h) {
  return from.same_dims(h.to) && from.unreduced() == joined(h.to.unreduced(), h.axes);
}

/// Even blocks by the table of docs/12-cost.md. If the parts do not nest it becomes an all-reduce and an exchange.
constexpr cost price_of_reduce_scatter(const moved_value& v, const hop& h) {
  const std::int64_t n = v.sizes.product(h.axes);
  if (n == 1) return {};
  const std::int64_t bytes = v.most_elements() * v.element_bytes;
  bool nested = true, even = true;
  const unsigned changed = v.from.differs_at(h.to);
  for (int i = 0; i < v.global.rank; ++i)
    if ((changed >> i & 1) != 0) {
      const axis_list want = h.to[i];
      nested = nested && nests(v.global.along(i), v.from[i], want, v.sizes);
      even = even && v.global.along(i).even(v.sizes.product(want));
    }
  if (nested && even) return {bytes - (bytes + n - 1) / n, rounds(n)};
  if (nested) return {most_scattered(v.global, v.from, h.to, h.axes, v.sizes) * v.element_bytes, rounds(n)};
  layout whole = v.from;
  whole.set_partial(h.to.unreduced(), v.from.combine());
  const std::int64_t exchanged = moved(v.global, whole, h.to, v.sizes) * v.element_bytes;
  return {2 * bytes - (2 * bytes + n - 1) / n + exchanged, 3 * rounds(n)};
}
constexpr bool reduce_scatters(const layout& from, const hop& h) {
  return from.unreduced() == joined(h.to.unreduced(), h.axes) && h.to.continues(from) &&
         h.to.sharded() == joined(from.sharded(), h.axes);
}

constexpr cost price_of_all_gather(const moved_value& v, const hop& h) {
  const std::int64_t bytes = received(v, h);
  return bytes == 0 ? cost{} : cost{bytes, rounds(v.sizes.product(h.axes))};
}
constexpr bool all_gathers(const layout& from, const hop& h) {
  return same_partial(from, h.to) && from.continues(h.to) && from.sharded() == joined(h.to.sharded(), h.axes);
}

constexpr cost price_of_all_to_all(const moved_value& v, const hop& h) {
  const std::int64_t bytes = received(v, h);
  return bytes == 0 ? cost{} : cost{bytes, v.sizes.product(h.axes) - 1};
}
constexpr bool all_to_alls(const layout& from, const hop& h) {
  return same_partial(from, h.to) && from.sharded() == h.to.sharded() && (h.axes & ~from.sharded()) == 0;
}

inline constexpr collective_entry table[] = {
    {kind::none, "none", nullptr, nullptr, "", false},
    {kind::slice, "slice", &price_of_permute, &slices, "replicated over %, each device keeps its part", false},
    {kind::mask, "mask", nullptr, &masks, "becomes partial over %", false},
    {kind::all_reduce, "all_reduce", &price_of_all_reduce, &all_reduces, "partial over %, needed whole"},
    {kind::reduce_scatter, "reduce_scatter", &price_of_reduce_scatter, &reduce_scatters,
     "partial over %, each device needs its part"},
    {kind::all_gather, "all_gather", &price_of_all_gather, &all_gathers, "sharded over %, needed whole"},
    {kind::all_to_all, "all_to_all", &price_of_all_to_all, &all_to_alls, "% moves to another dim"},
    {kind::collective_permute, "collective_permute", &price_of_permute, &permutes, "each device fetches what it lacks"},
    {kind::exchange, "exchange", nullptr, nullptr, ""},
    {kind::scan, "scan", nullptr, nullptr, ""},
};
constexpr bool in_order() {
  std::size_t i = 0;
  for (const collective_entry& e : table)
    if (static_cast<std::size_t>(e.what) != i++) return false;
  return true;
}
static_assert(in_order());

} // namespace collectives

constexpr const collective_entry& entry_of(kind k) { return collectives::table[static_cast<std::size_t>(k)]; }

namespace collectives {
/// The words of an entry alone, so that a program that prints a name does not compile the prices.
struct words {
  std::string_view name, reason;
  bool communicates;
};
inline constexpr auto all_words = [] {
  std::array<words, std::size(table)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = {table[i].name, table[i].reason, table[i].communicates};
  return all;
}();
} // namespace collectives

constexpr const collectives::words& words_of(kind k) { return collectives::all_words[static_cast<std::size_t>(k)]; }
constexpr std::string_view name_of(kind k) { return words_of(k).name; }

/// The price of one move, for any sizes. Even blocks are charged by the table of docs/12-cost.md; if blocks do not
/// nest, a move is the exchange that it becomes at run time.
constexpr cost price_of(const hop& h, const layout& from, const shape& global, std::int64_t element_bytes,
                        const axis_sizes& sizes) {
  const auto& price = entry_of(h.move).price;
  return !price.given ? cost{} : price.call({from, global, element_bytes, sizes}, h);
}
/// Whether one move takes a value from one layout to another.
constexpr bool is_legal(const hop& h, const layout& from) {
  const auto& legal = entry_of(h.move).legal;
  return legal.given && legal.call(from, h);
}

}} // namespace cleave::v0
