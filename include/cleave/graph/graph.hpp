// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/fault.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/layout/index_map.hpp>
#include <cleave/type/tensor_type.hpp>

#include <cstdint>
#include <limits>
#include <string_view>

namespace cleave { inline namespace v0 {

/// The operations of a graph. Their list is graph/op_list.hpp; ops/table.hpp has the properties that passes query.
enum class op : std::uint8_t {
#define CLEAVE_OP(code, ...) code,
#define CLEAVE_ELEMENTWISE(code, ...) code,
#include <cleave/graph/op_list.hpp>
};

/// Names for a value that already exists: removed before planning.
constexpr bool is_alias(op code) { return code == op::identity || code == op::stop_gradient; }
/// Gives its operand under other names of its dims, position by position.
constexpr bool renames(op code) { return code == op::rename; }
/// Pins dims of a value to a layout.
constexpr bool constrains(op code) { return code == op::constrain; }
/// Takes a value out of a loop. Only such a node may read a value that is inside.
constexpr bool leaves_loop(op code) { return code == op::loop_result || code == op::loop_stack; }
/// Stands outside of the loop to which it belongs.
constexpr bool is_outside_its_loop(op code) { return leaves_loop(code) || code == op::trip_count; }
/// Says how often a loop runs.
constexpr bool limits_loop(op code) { return code == op::trip_count || code == op::break_if; }

using node_id = std::uint16_t;
inline constexpr node_id no_node = 0xffff;

/// A dim of a graph. One name has one extent throughout a graph, as in Mesh-TensorFlow.
struct dim_info {
  std::string_view name{};
  std::int64_t extent = dynamic;
  bool divisible = false;
  std::string_view blocks{};

  constexpr dim_ref ref() const { return {name, extent, divisible, blocks}; }
};
using dim_table = static_vector<dim_info, max_dims>;

inline constexpr dim_id no_dim = 0xff;

/// Three dims of which the first is as long as the other two together: whole = major * minor. Without the third two
/// dims are equally long.
using dim_product = fixed_array<dim_id, 3>;

/// A number that depends on extents: constant + the sum of times * extent.
struct extent_sum {
  struct term {
    dim_id dim = no_dim;
    std::int64_t times = 0;
    friend constexpr bool operator==(const term&, const term&) = default;
  };
  static_vector<term, 6> terms{};
  std::int64_t constant = 0;
  friend constexpr bool operator==(const extent_sum&, const extent_sum&) = default;
};
/// A dim whose extent is floor(sum / divisor), or 0 if that is negative.
struct derived_extent {
  dim_id dim = no_dim;
  extent_sum sum{};
  std::int64_t divisor = 1;
  friend constexpr bool operator==(const derived_extent&, const derived_extent&) = default;
};

/// A dim that must not be too short: times * its extent is at least `least` + other_times * the extent of another dim.
/// A dim that mirrors elements may be empty, and nothing is asked of it if the other dim is.
struct least_extent {
  dim_id dim = no_dim;
  std::int64_t least = 0;
  bool may_be_empty = false;
  dim_id other = no_dim;
  std::int64_t times = 1, other_times = 1;
  friend constexpr bool operator==(const least_extent&, const least_extent&) = default;
};

/// Relations between extents, besides their values: those of splits and merges, slices, paddings, concatenations; and
/// those that slices and gradients of borders need.
struct extent_rules {
  static_vector<dim_product, 64> products{};
  static_vector<derived_extent, 32> derived{};
  static_vector<least_extent, 32> least{};
};

/// The index along a dim of an operand from that along a dim of the result, and from that in a window if there is one:
/// (stride * to + dilation * window + offset) / divisor, see index_map.
struct dim_map {
  std::uint8_t operand = 0;
  dim_id from = no_dim, to = no_dim, window = no_dim;
  std::int64_t stride = 1, dilation = 0, divisor = 1;
  extent_sum offset{};
  bool floors = false;
  border outside = border::zero;
  /// The operand that holds an offset known when the step runs, and its factor; 0: none.
  std::uint8_t at_run_time = 0;
  std::int8_t sign = 0;
  /// Of a halo: without elements that are outside of the block along another dim too.
  bool alone = false;
  friend constexpr bool operator==(const dim_map&, const dim_map&) = default;
};

/// A part of a computation that runs several times.
struct loop_info {
  /// The dim along which it runs, index by index; no_dim: as often as op::trip_count says, or until op::break_if holds.
  dim_id along = no_dim;
  /// From the last index to the first.
  bool backwards = false;
  /// The loop around it; 0: none.
  std::uint8_t around = 0;
  /// Of a loop along no dim: the number of iterations, or the assumed number if values decide.
  std::int64_t iterations = 0;
  /// A branch: it runs once or not at all.
  bool once = false;
  friend constexpr bool operator==(const loop_info&, const loop_info&) = default;
};
/// Loops of a graph, counted from 1.
inline constexpr std::size_t max_loops = 64;
using loop_list = static_vector<loop_info, max_loops>;

/// Whether a loop is `outer` or within it; everything is within 0.
constexpr bool within(const loop_list& loops, std::uint8_t loop, std::uint8_t outer) {
  for (; loop != outer && loop != 0; loop = loops[loop - 1u].around) {
  }
  return loop == outer;
}

struct user_entry;
inline constexpr int max_arity = 6;

/// Of a cast: it takes a number of the caller, which the type must be able to hold.
inline constexpr double is_number_that_fits = 1;
/// Of a cast: to the type in which many numbers of 16 bits are added up; and the cast of its cotangent, which rounds
/// the partial sums of each device before these are added up, as those of a product of 16 bits are rounded.
inline constexpr double is_widened = 2, rounds_partial_sums = 3;
/// Of a select: its predicate holds exactly at the elements of the update that its second operand places.
inline constexpr double chooses_update = 4;
/// Of a square root: its derivative at 0 is 0, as that of a length is.
inline constexpr double is_length = 5;

/// Of a comparison of labels with indices, and of rows at indices: every label is an index of the dim or is excluded,
/// which checked mode looks for; 0: any will do. All others are excluded by the label that no index has.
inline constexpr double labels_are_indices = std::numeric_limits<double>::quiet_NaN();
/// The same of a comparison, which another label does not have to pass.
constexpr double labels_are_indices_but(std::int64_t label) { return static_cast<double>(label) + 0.5; }
/// A label that no index has, in an element type of at least 32 bits.
constexpr double label_of_none(element e) {
  return is_signed_integer(e) ? lowest_of(e) : -lowest_of(size_of(e) == 4 ? element::i32 : element::i64);
}

/// One operation and its result.
struct node {
  op code = op::input;
  tensor_type type{};
  fixed_array<node_id, max_arity> in{no_node, no_node, no_node, no_node, no_node, no_node};
  std::uint8_t arity = 0;
  /// dot: contracted dims. reduce: reduced dims. count: the dims whose extents it multiplies. call: dims that must be
  /// whole.
  dim_set over = 0;
  /// reduce: how. Also of an input that is unreduced.
  reduction combine = reduction::sum;
  /// gather, scatter, cumulative, sort, argsort: {dim}. rename: {from, to}. split: {whole, major, minor}. merge:
  /// {major, minor, whole}. iota: {dim}. loop_slice: {dim of the loop, or no_dim}.
  fixed_array<dim_id, 3> which{};
  /// constant: the value. cast: see `is_number_that_fits`, `is_widened`. select: see `chooses_update`. sqrt: see
  /// `is_length`. equal, gather, scatter: see `labels_are_indices`.
  double scalar = 0;
  /// input, constrain, reshard: the layout the user wrote, for the positions in `pinned` (bit i: position i).
  layout pin{};
  std::uint8_t pinned = 0;
  source where{};
  /// user, call: the entry. A local call has the layouts that its operands and its result are pinned to.
  const user_entry* user = nullptr;
  bool local = false;
  /// Operations that take each element from another index: their maps, in the graph's table.
  std::uint16_t first_map = 0;
  std::uint8_t maps = 0;
  /// call: how far the kernel reads around its shards: maps as those of a region, in the graph's table.
  std::uint16_t first_halo = 0;
  std::uint8_t halos = 0;
  /// sort, argsort: in descending order. cumulative: from the last index on; and without the element itself.
  bool backwards = false, exclusive = false;
  /// The innermost loop that it is part of, 0 if none: the deepest one of its operands, so that loop-invariant values
  /// are computed once. carry, loop_slice and the other loop markers: `of` is the loop.
  std::uint8_t loop = 0;
  std::uint8_t of = 0;
  /// The loop or branch in whose body the user computes it. Only there it may be an operand.
  std::uint8_t body = 0;
  /// The operation whose derivative this is part of, or its own.
  op origin = op::input;
  bool gradient = false;
  /// Each device computes the neighbours of its block that others read, instead of fetching them (stencil::advance).
  bool computes_halo = false;
};

/// A computation: operations in topological order. The only form that passes see.
struct graph {
  mesh_value mesh{};
  dim_table dims{};
  extent_rules rules{};
  indexed_vector<node> nodes{};
  indexed_vector<dim_map> maps{};
  loop_list loops{};
  /// The arguments, in order: nodes of op::input.
  indexed_vector<node_id> inputs{};
  /// The results, in order, and the layout asked for each (used if `output_pinned`).
  indexed_vector<node_id> outputs{};
  indexed_vector<layout> output_layouts{};
  indexed_vector<tensor_type> output_types{};
  bool outputs_pinned = false;
  /// The first fault met while recording.
  verdict found{};
  /// The operation that has it, if a repair can be computed from its operands.
  indexed_vector<node> refused{};

  constexpr int find_dim(std::string_view name) const {
    // Most names differ in their lengths, which constant evaluation compares at once.
    const dim_info* list = dims.items;
    const int count = static_cast<int>(dims.count);
    const std::size_t length = name.size();
    for (int i = 0; i < count; ++i)
      if (list[i].name.size() == length && list[i].name == name) return i;
    return -1;
  }
};

/// The maps of an operation that takes each element from another index.
constexpr indexed_span<const dim_map> maps_of(const graph& g, const node& n) {
  return indexed_span(g.maps).subspan(n.first_map, n.maps);
}
/// How far a user's kernel reads around its shards.
constexpr indexed_span<const dim_map> halos_of(const graph& g, const node& n) {
  return indexed_span(g.maps).subspan(n.first_halo, n.halos);
}

/// Sizes for which a plan is priced or run: of every axis of the mesh and of every dim of the graph.
struct sizes {
  axis_sizes axes{};
  fixed_array<std::int64_t, max_dims> dims{};
  /// The blocks that are given for a dim, or null.
  fixed_array<const block_table*, max_dims> given{};

  constexpr std::int64_t operator[](dim_id d) const { return dims[d]; }
  constexpr dim_blocks along(dim_id d) const { return {dims[d], given[d]}; }
};

/// Iterations assumed of a loop that ends when its values say so.
inline constexpr std::int64_t hinted_iterations = 16;
/// How often a part of a computation runs.
constexpr std::int64_t iterations_of(const loop_list& loops, std::uint8_t loop, const sizes& s) {
  std::int64_t n = 1;
  for (; loop != 0; loop = loops[loop - 1u].around) {
    const loop_info& l = loops[loop - 1u];
    n *= l.along != no_dim ? s[l.along] : l.iterations;
  }
  return n;
}

/// `dynamic` if an extent is not known.
constexpr std::int64_t evaluated(const extent_sum& sum, const sizes& s) {
  std::int64_t n = sum.constant;
  for (const extent_sum::term& t : sum.terms) {
    if (s.dims[t.dim] == dynamic) return dynamic;
    n += t.times * s.dims[t.dim];
  }
  return n;
}
constexpr std::int64_t extent_of(const derived_extent& rule, const sizes& s) {
  for (const extent_sum::term& t : rule.sum.terms)
    if (s.dims[t.dim] == dynamic) return dynamic;
  const std::int64_t n = detail::floor_div(evaluated(rule.sum, s), rule.divisor);
  return n > 0 ? n : 0;
}

/// Whether a dim is as long as it must be.
constexpr bool is_long_enough(const least_extent& l, const sizes& s) {
  const std::int64_t own = s.dims[l.dim], other = l.other == no_dim ? 0 : s.dims[l.other];
  if (l.may_be_empty && (own == 0 || (other == 0 && l.other != no_dim))) return true;
  return l.times * own >= l.least + l.other_times * other;
}
/// The extent of a dim that is too short from which on it is long enough.
[[gnu::cold]] constexpr std::int64_t least_extent_of(const least_extent& l, const extent_rules& rules, sizes s) {
  while (!is_long_enough(l, s)) {
    ++s.dims[l.dim];
    for (const derived_extent& d : rules.derived)
      if (d.dim == l.other) s.dims[l.other] = extent_of(d, s);
  }
  return s.dims[l.dim];
}
/// Fills in the extents (`dynamic` if unknown) that follow from others. False if some contradict.
[[gnu::cold]] constexpr bool derive_extents(const extent_rules& rules, sizes& s) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const dim_product& p : rules.products) {
      std::int64_t one = 1;
      std::int64_t &whole = s.dims[p[0]], &major = s.dims[p[1]], &minor = p[2] == no_dim ? one : s.dims[p[2]];
      if (whole == dynamic && major != dynamic && minor != dynamic) whole = major * minor, changed = true;
      else if (whole != dynamic && major == dynamic && minor > 0 && whole % minor == 0)
        major = whole / minor, changed = true;
      else if (whole != dynamic && minor == dynamic && major > 0 && whole % major == 0)
        minor = whole / major, changed = true;
    }
    for (const derived_extent& d : rules.derived)
      if (s.dims[d.dim] == dynamic && extent_of(d, s) != dynamic) s.dims[d.dim] = extent_of(d, s), changed = true;
  }
  for (const dim_product& p : rules.products)
    if (s.dims[p[0]] != s.dims[p[1]] * (p[2] == no_dim ? 1 : s.dims[p[2]])) return false;
  for (const derived_extent& d : rules.derived)
    if (s.dims[d.dim] != extent_of(d, s)) return false;
  for (const least_extent& l : rules.least)
    if (!is_long_enough(l, s)) return false;
  return true;
}

/// A map for given sizes, in one place of its window. An offset that only the run knows counts as 0.
constexpr index_map bound(const dim_map& m, const sizes& s, std::int64_t in_window = 0, std::int64_t at_run_time = 0) {
  return {m.stride,  m.dilation * in_window + evaluated(m.offset, s) + m.sign * at_run_time,
          m.divisor, m.floors,
          m.outside, s[m.from]};
}

/// Global extents of a value.
constexpr shape shape_of(const tensor_type& type, const sizes& s) {
  shape global;
  global.rank = type.rank;
  for (int i = 0; i < type.rank; ++i) {
    global.extent[i] = s.dims.items[type.dims.items[i]];
    global.given[i] = s.given.items[type.dims.items[i]];
  }
  return global;
}

}} // namespace cleave::v0
