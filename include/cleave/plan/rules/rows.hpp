// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/exchange.hpp>
#include <cleave/plan/search/candidates.hpp>

namespace cleave::detail {

constexpr cost moves_of_gather(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  return gather_cost(m.node_at(n.in[1]).type, required(m, v, s, 1), s.taken[0], n.type, s.out, m.at);
}
constexpr cost moves_of_scatter(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  return scatter_cost(m.node_at(n.in[0]).type, required(m, v, s, 0), m.node_at(n.in[1]).type, required(m, v, s, 1),
                      s.sent, s.out[n.type.find(n.which[0])], m.at);
}

/// Rows are sent over axes that shard the indices; none of them may shard another dim of the table.
constexpr bool rows_can_be_sent(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  const unsigned over = s.over.sharded();
  for (int i = 0; i < n.type.rank; ++i)
    if (n.type[i] != n.which[0] && (s.out.axes(i) & over) != 0) return false;
  return true;
}

/// The strategies so far, with each device looking up the rows that it has, 0 for the others: nothing is asked for, and
/// the sum over the devices is left to those who read it. (Mesh-TensorFlow and GSPMD look up so.)
constexpr void offer_own_rows(const cost_model& m, assignment& a, std::size_t v, std::vector<strategy>& list) {
  const node& n = m.node_at(v);
  const node_id rows = n.in[0];
  if ((m.traits.at[rows] & rematerialised) != 0) return;
  const axis_list owners = produced(m, a, rows)[m.node_at(rows).type.find(n.which[0])];
  const std::size_t count = list.size();
  for (std::size_t i = 0; i <= count; ++i) {
    strategy s = i < count ? list[i] : a.chosen.at[v];
    if (s.forwarded != 0 || s.over.axes(0) != 0) continue;
    s.over.set(0, owners);
    s.over.give_up(0, s.out.sharded());
    if (s.over.axes(0) != 0) add_with_forwarding(m, a, v, s, list);
  }
}

/// The strategies so far, with the rows sent to those who have the index instead of partial tables: the table as it is,
/// as a reader wants it, or sharded as the indices are.
constexpr void offer_sent_rows(const cost_model& m, assignment& a, std::size_t v, std::vector<strategy>& list) {
  const node& n = m.node_at(v);
  const int along = n.type.find(n.which[0]);
  std::vector<axis_list> wanted(1, axis_list{});
  const std::size_t copies = find_copies(m, a, v, produced(m, a, v));
  for (std::size_t i = 0; i < copies; ++i) wanted.push_back(a.copies.at[i][along]);
  const std::size_t count = list.size();
  for (std::size_t i = 0; i <= count; ++i) {
    strategy s = i < count ? list[i] : a.chosen.at[v];
    s.sent = 0;
    const axis_set over = reduced_axes(s);
    if (over == 0 || s.forwarded != 0) continue;
    const auto send = [&](axis_list way) {
      strategy t = s;
      t.sent = over;
      t.out.clear(along);
      if ((t.out.sharded() & way.mask()) != 0) return;
      t.out.set(along, way);
      add_with_forwarding(m, a, v, t, list);
    };
    for (std::size_t w = 0; w < wanted.size(); ++w) send(wanted[w]);
    send(s.out[along]);
    for (int r = 0; r < max_rank; ++r)
      if (s.over.axes(r) != 0) send(s.over[r]);
  }
}

inline constexpr planning_rules gather_rules{&moves_of_gather, false, nullptr, &offer_own_rows, nullptr, true, true};
inline constexpr planning_rules scatter_rules{&moves_of_scatter, false, nullptr, &offer_sent_rows,
                                              &rows_can_be_sent, true};

} // namespace cleave::detail
