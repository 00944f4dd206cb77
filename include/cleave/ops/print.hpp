// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/ops/table.hpp>

#include <string>

namespace cleave { inline namespace v0 {

/// `batch/data/fsdp`: a dim and the axes that shard it.
inline std::string to_string(dim_id d, axis_list list, const dim_table& dims, const mesh_value& mesh) {
  std::string s(dims[d].name);
  for (int i = 0; i < list.size(); ++i) s.append("/").append(mesh.axes[list[i]].name);
  return s;
}

/// `data, model`: a set of axes.
inline std::string to_string(axis_set set, const mesh_value& mesh) {
  std::string s;
  for (int a = 0; a < mesh.size(); ++a)
    if (set.contains(a)) s.append(s.empty() ? "" : ", ").append(mesh.axes[a].name);
  return s;
}

/// `f32[batch/data, embed]`, `f32[batch, embed | unreduced(model)]`: the one notation of types and layouts.
[[gnu::cold]] inline std::string to_string(const tensor_type& type, const layout& where, const dim_table& dims,
                                           const mesh_value& mesh) {
  std::string s(name_of(type.element));
  s += '[';
  for (int i = 0; i < type.rank; ++i) s.append(i > 0 ? ", " : "").append(to_string(type[i], where[i], dims, mesh));
  if (where.unreduced() != 0) {
    s.append(type.rank > 0 ? " | " : "").append("unreduced");
    if (where.combine() != reduction::sum) s.append("<").append(name_of(where.combine())).append(">");
    s.append("(").append(to_string(where.unreduced(), mesh)).append(")");
  }
  return s + "]";
}

/// `gradient of dot`: the operation that something was made for.
inline std::string origin_name(op code, bool gradient) {
  return (gradient ? "gradient of " : "") + std::string(name_of(code));
}

/// A graph, one operation a line: `%3 = dot(%0, %1 over embed): f32[batch, hidden]  line 12`. With the layout of each
/// value if they are given, else with those that the user pinned.
inline std::string to_string(const graph& g, indexed_span<const layout> layouts = {}) {
  std::string s;
  for (std::size_t v = 0; v < g.nodes.size(); ++v) {
    const node& n = g.nodes[v];
    s.append("%").append(std::to_string(v)).append(" = ").append(name_of(n)).append("(");
    for (unsigned k = 0; k < n.arity; ++k) s.append(k > 0 ? ", " : "").append("%").append(std::to_string(n.in[k]));
    if (n.code == op::constant) s += std::to_string(n.scalar);
    if (n.over != 0) {
      s += n.arity > 0 ? " over" : "";
      for (std::size_t d = 0; d < g.dims.size(); ++d)
        if ((n.over >> d & 1) != 0) s.append(" ").append(g.dims[d].name);
    }
    s.append("): ").append(to_string(n.type,
                                     !layouts.empty() ? layouts[v]
                                     : n.pinned != 0  ? n.pin
                                                      : layout{},
                                     g.dims, g.mesh));
    if (n.gradient) s.append("  ").append(origin_name(n.origin, true));
    if (n.where.line != 0) s.append("  line ").append(std::to_string(n.where.line));
    s += '\n';
  }
  for (std::size_t r = 0; r < g.outputs.size(); ++r)
    s.append("result %").append(std::to_string(g.outputs[r])).append("\n");
  return s;
}

}} // namespace cleave::v0
