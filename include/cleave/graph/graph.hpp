// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/fault.hpp>
#include <cleave/graph/op.hpp>
#include <cleave/layout/blocks.hpp>
#include <cleave/type/tensor_type.hpp>

#include <array>
#include <string_view>
#include <vector>

namespace cleave {

using node_id = std::uint16_t;
inline constexpr node_id no_node = 0xffff;

/// A dim of a graph. One name has one extent throughout a graph, as in Mesh-TensorFlow.
struct dim_info {
  std::string_view name{};
  std::int64_t extent = dynamic;
  bool divisible = false;
};

/// Three dims of which the first is as long as the other two together: whole = major * minor. Without the third two dims
/// are equally long.
using dim_product = std::array<dim_id, 3>;
inline constexpr dim_id no_dim = 0xff;
inline constexpr int max_products = 64;

struct user_entry;
inline constexpr int max_arity = 6;

/// One operation and its result.
struct node {
  op code = op::input;
  tensor_type type{};
  std::array<node_id, max_arity> in{no_node, no_node, no_node, no_node, no_node, no_node};
  std::uint8_t arity = 0;
  /// dot: contracted dims. reduce: reduced dims. count: the dims whose extents it multiplies. call: dims that must be whole.
  dim_set over = 0;
  /// reduce: how. Also of an input that is unreduced.
  reduction combine = reduction::sum;
  /// rename: {from, to}. split: {whole, major, minor}. merge: {major, minor, whole}. iota: {dim}.
  std::array<dim_id, 3> which{};
  /// constant: the value.
  double scalar = 0;
  /// input, constrain, reshard: the layout the user wrote, for the positions in `pinned` (bit i: position i).
  layout pin{};
  std::uint8_t pinned = 0;
  source where{};
  /// user, call: the entry. A local call has the layouts that its operands and its result are pinned to.
  const user_entry* user = nullptr;
  bool local = false;
  /// The operation whose derivative this is part of, or its own.
  op origin = op::input;
  bool gradient = false;
};

/// A computation: operations in topological order. The only form that passes see.
struct graph {
  mesh_value mesh{};
  static_vector<dim_info, max_dims> dims{};
  /// What splits and merges say of extents.
  static_vector<dim_product, max_products> products{};
  std::vector<node> nodes{};
  /// The arguments, in order: nodes of op::input.
  std::vector<node_id> inputs{};
  /// The results, in order, and the layout asked for each (used where `output_pinned`).
  std::vector<node_id> outputs{};
  std::vector<layout> output_layouts{};
  std::vector<tensor_type> output_types{};
  bool outputs_pinned = false;
  /// The first fault met while recording.
  verdict found{};

  constexpr int find_dim(std::string_view name) const {
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (dims[i].name == name) return static_cast<int>(i);
    return -1;
  }
};

/// Sizes for which a plan is priced or run: of every axis of the mesh and of every dim of the graph.
struct sizes {
  axis_sizes axes{};
  std::array<std::int64_t, max_dims> dims{};

  constexpr std::int64_t operator[](dim_id d) const { return dims[d]; }
};

/// Fills in the extents (`dynamic` where unknown) that follow from others. False if some contradict.
constexpr bool derive_extents(const static_vector<dim_product, max_products>& products, sizes& s) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const dim_product& p : products) {
      std::int64_t one = 1;
      std::int64_t &whole = s.dims[p[0]], &major = s.dims[p[1]], &minor = p[2] == no_dim ? one : s.dims[p[2]];
      if (whole == dynamic && major != dynamic && minor != dynamic) whole = major * minor, changed = true;
      else if (whole != dynamic && major == dynamic && minor > 0 && whole % minor == 0) major = whole / minor, changed = true;
      else if (whole != dynamic && minor == dynamic && major > 0 && whole % major == 0) minor = whole / major, changed = true;
    }
  }
  for (const dim_product& p : products)
    if (s.dims[p[0]] != s.dims[p[1]] * (p[2] == no_dim ? 1 : s.dims[p[2]])) return false;
  return true;
}

/// Global extents of a value.
constexpr shape shape_of(const tensor_type& type, const sizes& s) {
  shape global;
  global.rank = type.rank;
  for (int i = 0; i < type.rank; ++i) global[i] = s[type[i]];
  return global;
}

} // namespace cleave
