// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/priced_graph.hpp>
#include <cleave/propagate/complete.hpp>

namespace cleave {

namespace detail {

/// The strategies that a node has, given those of its neighbours.
struct candidate_strategies : priced_graph {
  using priced_graph::priced_graph;

  /// Maps the layout of operand `k` to the result and the reduced factors; other positions stay as they are.
  constexpr void project(std::size_t v, int k, const layout& operand, strategy& s) const {
    unsigned fresh = 0;
    int r = 0;
    for (const factor& f : factors[v]) {
      const int position = f.at[static_cast<std::size_t>(k)];
      axis_list* list = f.reduced ? &s.over[static_cast<std::size_t>(r++)] : f.at[in_result] >= 0 ? &s.out[f.at[in_result]] : nullptr;
      if (position < 0) continue;
      if (f.taken >= 0) s.taken[f.taken] = operand[position];
      if (list == nullptr) continue;
      *list = operand[position];
      fresh |= list->mask();
    }
    // Positions that this operand does not have give up axes that it uses.
    r = 0;
    for (const factor& f : factors[v]) {
      axis_list* list = f.reduced ? &s.over[static_cast<std::size_t>(r++)] : f.at[in_result] >= 0 ? &s.out[f.at[in_result]] : nullptr;
      if (f.at[static_cast<std::size_t>(k)] >= 0 || list == nullptr) continue;
      while ((list->mask() & fresh) != 0) list->pop_back();
    }
    for (const factor& f : factors[v])
      if (f.minor >= 0) project_view(v, f, operand, s);
  }
  /// What a split or merge makes of the axes of its operand.
  constexpr void project_view(std::size_t v, const factor& f, const layout& operand, strategy& s) const {
    const node& n = node_at(v);
    if (n.code == op::split) {
      const view_parts parts = parts_of_view(g, n, operand[f.at[0]]);
      s.out[f.at[in_result]] = parts.major;
      s.out[f.minor] = parts.minor;
      return;
    }
    axis_list whole = operand[f.at[0]].then(operand[f.minor]);
    if (const view_parts parts = parts_of_view(g, n, whole); !parts.exact || parts.minor != operand[f.minor]) {
      const view_parts major = parts_of_view(g, n, operand[f.at[0]]);
      whole = major.major.then(major.minor);
    }
    s.out[f.at[in_result]] = whole;
    s.minor = parts_of_view(g, n, whole).minor;
  }
  /// Makes the axes of the result of a split or merge those of blocks that its operand has too, and keeps whole what a user's
  /// kernel needs whole.
  constexpr void fit(std::size_t v, strategy& s) const {
    const node& n = node_at(v);
    const dim_set whole = whole_dims(g, n);
    for (int i = 0; i < n.type.rank && whole != 0; ++i)
      if ((whole & dim_bit(n.type[i])) != 0) s.out[i] = {};
    for (const factor& f : factors[v]) {
      if (f.minor < 0) continue;
      axis_list& list = s.out[f.at[in_result]];
      const view_parts parts = parts_of_view(g, n, n.code == op::split ? list.then(s.out[f.minor]) : list);
      list = n.code == op::split ? parts.major : parts.major.then(parts.minor);
      if (n.code == op::split) s.out[f.minor] = parts.minor;
      else s.minor = parts.minor;
    }
  }
  /// What an exchange takes is best taken from where it is: the operands' own axes, but for those that divide a common dim.
  constexpr void take_home(std::size_t v, strategy& s) const {
    const node& n = node_at(v);
    for (int k = 0; k < n.arity && fetches(n); ++k) {
      const std::size_t u = n.in[static_cast<std::size_t>(k)];
      unsigned common = s.pass;
      for (const factor& f : factors[v])
        if (f.taken < 0 && f.at[static_cast<std::size_t>(k)] >= 0) common |= s.out[f.at[in_result]].mask();
      for (const factor& f : factors[v]) {
        const int position = f.at[static_cast<std::size_t>(k)];
        if (f.taken < 0 || position < 0) continue;
        if (!s.over[0].empty()) {
          s.taken[f.taken] = {};
          continue;
        }
        s.taken[f.taken] = anywhere(u) ? axis_list{} : home(u)[position];
        while ((s.taken[f.taken].mask() & common) != 0) s.taken[f.taken].pop_back();
      }
    }
  }
  constexpr bool fits(std::size_t v, const strategy& s) const {
    const node& n = node_at(v);
    const dim_set whole = whole_dims(g, n);
    for (int i = 0; i < n.type.rank && whole != 0; ++i)
      if ((whole & dim_bit(n.type[i])) != 0 && !s.out[i].empty()) return false;
    for (int k = 0; k < n.arity && fetches(n); ++k) {
      const layout need = required(n, factors[v], s, k);
      unsigned seen = s.pass;
      for (const axis_list& list : need.dims) {
        if ((seen & list.mask()) != 0) return false;
        seen |= list.mask();
      }
    }
    for (const factor& f : factors[v]) {
      if (f.minor < 0) continue;
      const axis_list list = s.out[f.at[in_result]];
      const view_parts parts = parts_of_view(g, n, n.code == op::split ? list.then(s.out[f.minor]) : list);
      if (!parts.exact || parts.minor != (n.code == op::split ? s.out[f.minor] : s.minor)) return false;
    }
    return true;
  }

  /// A layout that the user wrote is that of the whole value, not of partial sums; that of its cotangent only says how dims are
  /// divided.
  static constexpr bool keeps_whole(const node& n) { return n.code == op::constrain && !n.gradient; }

  constexpr bool respects_pins(std::size_t v, const strategy& s) const {
    for (int i = 0; i < node_at(v).type.rank; ++i)
      if ((node_at(v).pinned >> i & 1) != 0 && s.out[i] != node_at(v).pin[i]) return false;
    return true;
  }

  constexpr bool valid(std::size_t v, const strategy& s) const {
    unsigned seen = s.pass;
    for (int i = 0; i < max_rank; ++i) {
      if ((seen & s.out[i].mask()) != 0) return false;
      seen |= s.out[i].mask();
    }
    // Rows may be sent along the axes that divide what they are sent to.
    unsigned over = 0;
    for (const axis_list& list : s.over) {
      if ((seen & list.mask() & ~static_cast<unsigned>(s.sent)) != 0 || (over & list.mask()) != 0) return false;
      over |= list.mask();
    }
    if ((s.sent & ~over) != 0 || (s.pass & over) != 0) return false;
    if (node_at(v).code == op::scatter)
      for (int i = 0; i < node_at(v).type.rank; ++i)
        if (node_at(v).type[i] != node_at(v).which[0] && (s.out[i].mask() & over) != 0) return false;
    return fits(v, s) && respects_pins(v, s);
  }

  /// Where all operands come divided over an axis along a reduced dim, a result that only its readers want divided over that axis
  /// gives it up: the sum is partial, and scattered afterwards.
  constexpr void give_way(std::size_t v, const completion& layouts, layout& out) const {
    const node& n = node_at(v);
    unsigned along = 0, brought = 0;
    for (const factor& f : factors[v]) {
      unsigned all = ~0u;
      for (int k = 0; k < n.arity; ++k) {
        if (f.at[static_cast<std::size_t>(k)] < 0) continue;
        const unsigned mask = layouts[n.in[static_cast<std::size_t>(k)]][f.at[static_cast<std::size_t>(k)]].mask();
        all &= mask;
        if (!f.reduced) brought |= mask;
      }
      if (f.reduced) along |= all;
    }
    for (int i = 0; i < n.type.rank; ++i)
      while ((out[i].mask() & along & ~brought) != 0) out[i].pop_back();
  }

  /// The strategy that completion suggests.
  constexpr strategy suggested(std::size_t v, const completion& layouts) const {
    const node& n = node_at(v);
    strategy s;
    s.out = layouts[v];
    s.out.unreduced = 0;
    if (n.code == op::input || n.code == op::reshard || n.local) {
      s.out = n.pin;
      s.out.combine = n.pin.combine;
      if (n.code == op::reshard) {
        s.pass = n.pin.unreduced;
        s.bringers = s.pass != 0 ? 1 : 0;
      }
      return s;
    }
    fit(v, s);
    take_home(v, s);
    give_way(v, layouts, s.out);
    unsigned used = s.out.sharded();
    int r = 0;
    for (const factor& f : factors[v]) {
      if (!f.reduced) continue;
      axis_list list = layouts[n.in[0]][f.at[0]];
      if (f.at[1] >= 0) {
        const axis_list other = layouts[n.in[1]][f.at[1]];
        if (other.starts_with(list)) list = other;
      }
      axis_list kept;
      for (int j = 0; j < list.size() && (used >> list[j] & 1) == 0; ++j) kept.push_back(list[j]);
      used |= kept.mask();
      s.over[static_cast<std::size_t>(r++)] = kept;
    }
    seal(n, s);
    return s;
  }

  /// Variants of a strategy that let partial sums of the operands through.
  constexpr void with_pass(std::size_t v, strategy s, std::vector<strategy>& into) const {
    const node& n = node_at(v);
    s.pass = 0;
    s.bringers = 0;
    take_home(v, s);
    seal(n, s);
    if (!valid(v, s)) return;
    into.push_back(s);
    if (entry_of(n.code).sums == linearity::none) return;
    for (unsigned tried = 1; tried < 1u << n.arity; ++tried) {
      axis_set common = 0x7f;
      bool combines = true;
      element of = element::none;
      for (int k = 0; k < n.arity; ++k) {
        if ((tried >> k & 1) == 0) continue;
        const layout& l = home(n.in[static_cast<std::size_t>(k)]);
        of = node_at(n.in[static_cast<std::size_t>(k)]).type.element;
        common = static_cast<axis_set>(common & l.unreduced);
        const reduction through = n.code == op::reduce ? n.combine : reduction::sum;
        combines = combines && l.combine == through;
      }
      common = static_cast<axis_set>(common & ~dividing_axes(s));
      const std::uint8_t who = bringers_of(n.code, of, static_cast<std::uint8_t>(tried));
      if (who == 0 || common == 0 || !combines) continue;
      if (keeps_whole(n)) continue;
      strategy t = s;
      t.pass = common;
      t.bringers = who;
      seal(n, t);
      if (valid(v, t)) into.push_back(t);
    }
  }

  /// Strategies worth trying for a node: as its operands come, as its consumers or the caller want it, and for a
  /// product or a user's kernel every way to divide its factors over the mesh.
  constexpr std::vector<strategy> candidates(std::size_t v) const {
    const node& n = node_at(v);
    std::vector<strategy> list;
    for (int k = 0; k < n.arity; ++k) {
      if (anywhere(n.in[static_cast<std::size_t>(k)])) continue;
      strategy s = chosen[v];
      project(v, k, home(n.in[static_cast<std::size_t>(k)]), s);
      with_pass(v, s, list);
      strategy bare;
      project(v, k, home(n.in[static_cast<std::size_t>(k)]), bare);
      if (!bare.divides_like(s)) with_pass(v, bare, list);
    }
    const auto wanted = [&](const layout& l) {
      strategy s = chosen[v];
      for (int i = 0; i < n.type.rank; ++i) s.out[i] = l[i];
      for (axis_list& over : s.over)
        while ((over.mask() & s.out.sharded()) != 0) over.pop_back();
      fit(v, s);
      with_pass(v, s, list);
    };
    for (const layout& l : copies_of(v)) wanted(l);
    if (n.code == op::carry && next_of[v] != no_node) wanted(home(node_at(next_of[v]).in[0]));
    if (n.code == op::gather) look_up_own_rows(v, list);
    if (n.code == op::scatter) send_rows(v, list);
    if (n.maps != 0) {
      // What is short, or read whole, may be fetched whole at once.
      strategy s = chosen[v];
      for (const factor& f : factors[v])
        if (f.taken >= 0 && f.at[in_result] >= 0) s.out[f.at[in_result]] = {};
      with_pass(v, s, list);
    }
    if (n.code == op::dot || (n.code == op::call && !n.local)) {
      strategy s;
      enumerate(v, 0, s, list);
    }
    return list;
  }

  /// The strategies so far, with each device looking up the rows that it has, 0 for the others: nothing is asked for, and the sum over
  /// the devices is left to those who read it. (Mesh-TensorFlow and GSPMD look up so.)
  constexpr void look_up_own_rows(std::size_t v, std::vector<strategy>& list) const {
    const node& n = node_at(v);
    const node_id table = n.in[0];
    if (anywhere(table)) return;
    const axis_list rows = home(table)[node_at(table).type.find(n.which[0])];
    std::vector<strategy> bases(list.begin(), list.end());
    bases.push_back(chosen[v]);
    for (strategy s : bases) {
      if (s.pass != 0 || !s.over[0].empty()) continue;
      s.over[0] = rows;
      while ((s.over[0].mask() & s.out.sharded()) != 0) s.over[0].pop_back();
      if (!s.over[0].empty()) with_pass(v, s, list);
    }
  }

  /// The strategies so far, with the rows sent to those who have the place instead of partial tables: the table as it is, as a
  /// reader wants it, or divided as the places are.
  constexpr void send_rows(std::size_t v, std::vector<strategy>& list) const {
    const node& n = node_at(v);
    const int along = n.type.find(n.which[0]);
    std::vector<axis_list> ways{axis_list{}};
    for (const layout& l : copies_of(v)) ways.push_back(l[along]);
    const std::size_t count = list.size();
    std::vector<strategy> bases(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
    bases.push_back(chosen[v]);
    for (strategy s : bases) {
      s.sent = 0;
      const axis_set over = reduced_axes(s);
      if (over == 0 || s.pass != 0) continue;
      std::vector<axis_list> tried = ways;
      tried.push_back(s.out[along]);
      for (const axis_list& divided : s.over)
        if (!divided.empty()) tried.push_back(divided);
      for (const axis_list& way : tried) {
        strategy t = s;
        t.sent = over;
        t.out[along] = way;
        with_pass(v, t, list);
      }
    }
  }

  /// Every assignment of the mesh axes to the factors, in every order within a factor.
  constexpr void enumerate(std::size_t v, int axis, const strategy& so_far, std::vector<strategy>& into) const {
    if (axis == g.mesh.size()) {
      with_pass(v, so_far, into);
      return;
    }
    enumerate(v, axis + 1, so_far, into);
    if (at.axes[axis] == 1) return;
    int r = 0;
    for (const factor& f : factors[v]) {
      const bool reduced = f.reduced;
      if (!reduced && f.at[in_result] < 0) continue;
      const int slot = reduced ? r++ : f.at[in_result];
      const axis_list have = reduced ? so_far.over[static_cast<std::size_t>(slot)] : so_far.out[slot];
      const tensor_type& t = reduced ? node_at(node_at(v).in[0]).type : node_at(v).type;
      const std::int64_t extent = at[t[reduced ? f.at[0] : slot]];
      if (extent < at.axes.product(have) * at.axes[axis]) continue;
      for (int p = 0; p <= have.size(); ++p) {
        axis_list list;
        for (int j = 0; j < have.size(); ++j) {
          if (j == p) list.push_back(axis);
          list.push_back(have[j]);
        }
        if (p == have.size()) list.push_back(axis);
        strategy s = so_far;
        (reduced ? s.over[static_cast<std::size_t>(slot)] : s.out[slot]) = list;
        enumerate(v, axis + 1, s, into);
      }
    }
  }
};

} // namespace detail

} // namespace cleave
