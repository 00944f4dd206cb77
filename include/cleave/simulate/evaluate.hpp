// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/table.hpp>
#include <cleave/simulate/array.hpp>

namespace cleave {

/// Runs an unpartitioned graph on whole tensors, op by op, in double precision: what every plan must agree with. Inputs in
/// order of the arguments (an unreduced one as its combined value); results in the memory order asked for.
inline std::vector<host_array> evaluate(const graph& g, const sizes& at, const std::vector<host_array>& inputs) {
  using namespace simulation;
  std::vector<host_array> values(g.nodes.size());
  std::size_t next_input = 0;
  for (std::size_t v = 0; v < g.nodes.size(); ++v) {
    const node& n = g.nodes[v];
    const shape extents = shape_of(n.type, at);
    host_array& out = values[v];
    const auto operand = [&](int k) -> const host_array& { return values[n.in[static_cast<std::size_t>(k)]]; };
    const auto operand_type = [&](int k) -> const tensor_type& { return g.nodes[n.in[static_cast<std::size_t>(k)]].type; };
    switch (class_of(n.code)) {
      case op_class::source:
        if (n.code == op::input) {
          out = inputs[next_input++];
        } else if (n.code == op::iota) {
          out = host_array(extents);
          for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = static_cast<double>(i);
        } else {
          out = host_array(extents, n.code == op::count ? product_of(n.over, at) : n.scalar);
        }
        break;
      case op_class::elementwise: {
        out = host_array(extents);
        const index to = along(n.type, n.type, extents);
        std::array<index, 3> from{};
        for (int k = 0; k < n.arity; ++k) from[static_cast<std::size_t>(k)] = along(n.type, operand_type(k), operand(k).extents);
        for_each_index(extents, [&](const index& i) {
          std::array<double, 3> x{};
          for (int k = 0; k < n.arity; ++k)
            x[static_cast<std::size_t>(k)] = operand(k).data[offset(i, from[static_cast<std::size_t>(k)], n.type.rank)];
          out.data[offset(i, to, n.type.rank)] = scalar(n.code, n.type.element, x[0], x[1], x[2]);
        });
        break;
      }
      case op_class::contraction: {
        out = host_array(extents);
        tensor_type over;
        for (int i = 0; i < operand_type(0).rank; ++i)
          if ((n.over & dim_bit(operand_type(0)[i])) != 0) over.append(operand_type(0)[i]);
        contract(n.type, extents, over, shape_of(over, at), operand_type(0), operand(0).extents, operand(0).data.data(),
                 operand_type(1), operand(1).extents, operand(1).data.data(), n.type, extents, out.data.data());
        break;
      }
      case op_class::reduction: {
        out = host_array(extents, identity(n.combine));
        const tensor_type& t = operand_type(0);
        const index from = along(t, t, operand(0).extents), to = along(t, n.type, extents);
        for_each_index(operand(0).extents, [&](const index& i) {
          double& sum = out.data[offset(i, to, t.rank)];
          sum = combine(n.combine, sum, operand(0).data[offset(i, from, t.rank)]);
        });
        break;
      }
      case op_class::view:
        out = operand(0);
        out.extents = extents;
        break;
      case op_class::annotation: out = operand(0); break;
    }
  }
  std::vector<host_array> results;
  for (std::size_t r = 0; r < g.outputs.size(); ++r) {
    const tensor_type &asked = g.output_types[r], &have = g.nodes[g.outputs[r]].type;
    host_array out(shape_of(asked, at));
    const index to = along(asked, asked, out.extents), from = along(asked, have, values[g.outputs[r]].extents);
    for_each_index(out.extents, [&](const index& i) {
      out.data[offset(i, to, asked.rank)] = values[g.outputs[r]].data[offset(i, from, asked.rank)];
    });
    results.push_back(out);
  }
  return results;
}

} // namespace cleave
