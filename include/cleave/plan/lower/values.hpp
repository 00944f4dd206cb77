// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/regions.hpp>
#include <cleave/rules/all.hpp>

namespace cleave { inline namespace v0 { namespace lowering {

inline constexpr std::size_t none = ~std::size_t{0};

/// How a value of a partitioned program comes about.
enum class origin : std::uint8_t {
  /// An operation computes it.
  node,
  /// An earlier value in another layout, by one collective or local move.
  move,
  /// The elements of an earlier value under other dims, in the same memory.
  rename,
  /// A shard of an earlier value and the elements around it.
  region,
  /// The slice of a stack at the index of an iteration.
  slice,
  /// The first operand, written into the memory of the carried value that is the second: the next iteration reads it.
  next,
  /// Written at the index of the iteration into the value after it, which is the stack.
  collect,
};

/// One value of a partitioned program, in single assignment: each is made once, and read as often as needed.
struct partitioned_value {
  lowering::origin origin = lowering::origin::node;
  node_id node = 0;
  tensor_type type{};
  layout where{};
  /// The values that it reads.
  fixed_array<std::size_t, max_arity> in{};
  std::uint8_t arity = 0;
  /// Of a move: which.
  hop by{};
  /// It reads the region in[0] at a distance, and has no memory of its own unless a reader needs it as a shard.
  bool reads_neighbours = false;
  /// It is the value in[2] with the elements of in[0] from index in[1] on; the node says along which dim.
  bool updates = false;
  /// Of a region: which one.
  std::size_t region = none;
  /// The loop in which it is computed; 0: none.
  std::uint8_t loop = 0;
};

/// Where a node is made: once, in the layout of its strategy; or by every device for itself, in each layout in which it
/// is read (planner::rematerialised), maybe as one number for all elements.
enum class availability : std::uint8_t { once, everywhere, uniform };

/// The values of a partitioned program, each after those that it reads.
struct partitioned {
  indexed_vector<partitioned_value> values{};
  /// The values of each node, in lists: by node the first entry, whose value is the node as computed, and the last. An
  /// annotation begins with the value of its operand.
  struct version {
    std::size_t value, next;
  };
  indexed_vector<version> versions{};
  indexed_vector<std::size_t> first_of{}, last_of{};
  /// By node.
  indexed_vector<availability> made{};
  shared_regions regions{};
  /// By loop: the value that says how often it runs, and the one that ends it.
  fixed_array<std::size_t, max_loops + 1> iterations{}, until{};
  /// By result: the value that is asked for.
  indexed_vector<std::size_t> results{};

  /// Whether a region is the halo of a shard alone.
  constexpr bool is_halo_region(std::size_t r) const { return regions.all[r].halo; }
  constexpr bool is_halo(std::size_t i) const {
    return values[i].origin == origin::region && is_halo_region(values[i].region);
  }
};

/// A node in the layout in which it is computed.
constexpr std::size_t as_computed(const partitioned& p, node_id u) { return p.versions[p.first_of[u]].value; }
/// The value that has the elements of another one under its own dims.
constexpr std::size_t root_of(const partitioned& p, std::size_t i) {
  const partitioned_value* values = p.values.data();
  while (values[i].origin == origin::rename) i = values[i].in.items[0];
  return i;
}
/// Whether a value is an argument of the program.
constexpr bool is_argument(const assigned_graph& in, const partitioned_value& v) {
  return v.origin == origin::node && in.node_at(v.node).code == op::input;
}
/// Whether a value is one that a loop carries, when it is read.
constexpr bool is_carried(const assigned_graph& in, const partitioned_value& v) {
  return v.origin == origin::node && in.node_at(v.node).code == op::carry;
}
/// Whether the step of a value evaluates an expression element by element.
constexpr bool is_expression(const assigned_graph& in, const partitioned_value& v) {
  if (v.origin == origin::next || v.origin == origin::collect) return true;
  if (v.origin != origin::node) return false;
  if (v.reads_neighbours) return true;
  const node& n = in.node_at(v.node);
  const auto& fuses = rules_of(n).is_expression;
  return fuses.given && fuses.call(n);
}
constexpr bool is_folded(const assigned_graph& in, const partitioned_value& v) {
  return v.origin == origin::node && rules_of(in.node_at(v.node)).folds;
}
/// The dims that the step of a value runs over: those of the value, and after them those that it reduces.
constexpr tensor_type loop_of(const assigned_graph& in, const partitioned& p, const partitioned_value& v) {
  tensor_type loop = v.type;
  if (!is_folded(in, v)) return loop;
  const tensor_type& operand = p.values[v.in[0]].type;
  for (int i = 0; i < operand.rank; ++i)
    if ((in.node_at(v.node).over & dim_bit(operand[i])) != 0) loop.append(operand[i]);
  return loop;
}

}}} // namespace cleave::v0::lowering
