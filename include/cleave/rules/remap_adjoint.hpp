// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/record/op_builder.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// The adjoint of an operation that takes elements from other indices: sends each cotangent back to the source of its
/// element, and adds up. Borders give indices inside the dim back from those beyond it, each by a map of its own.
class remap_adjoint {
 public:
  constexpr remap_adjoint(recorder& in, const node& n, value g, indexed_span<const value> operands)
      : in_(in), n_(n), g_(g), operands_(operands) {}

  /// The cotangent of an operand.
  constexpr value by(std::uint8_t operand) {
    if (n_.code == op::diagonal) return on_diagonal();
    const tensor_type to = in_.at(operands_[operand]).type;
    indexed_vector<dim_map> maps;
    dim_set mapped = 0;
    for (std::uint8_t m = 0; m < n_.maps; ++m) {
      const dim_map map = in_.made().maps[as_size(n_.first_map + m)];
      if (map.operand != operand) continue;
      maps.push_back(map);
      mapped |= dim_bit(map.to);
      if (map.window != no_dim && !to.has(map.window)) mapped |= dim_bit(map.window);
    }
    // Along the dims that maps name, a cotangent that is constant must be there.
    const tensor_type have = in_.at(g_).type;
    if ((mapped & ~have.set()) != 0) {
      tensor_type wide = n_.type;
      for (int i = wide.rank; i-- > 0;)
        if (!have.has(wide[i]) && (mapped & dim_bit(wide[i])) == 0) wide = without(wide, wide[i]);
      g_ = in_.broadcast(g_, wide, n_.where);
      if (!g_.ok()) return g_;
    }
    indexed_vector<back> so_far;
    return combine(maps, 0, so_far, to);
  }

 private:
  /// One way back along a dim, and the indices of the operand for which it holds.
  struct back {
    dim_map map{};
    enum class only : std::uint8_t { everywhere, not_first, not_last, first, last, between } where = only::everywhere;
  };

  /// How far a map reaches beyond the ends of its dim: exactly, if the extents are known, otherwise at most.
  struct reach_beyond {
    std::int64_t low = 0, high = 0;
    bool exact = false;
  };

  static constexpr tensor_type without(const tensor_type& t, dim_id d) {
    tensor_type rest;
    rest.element = t.element;
    for (int i = 0; i < t.rank; ++i)
      if (t[i] != d) rest.append(t[i]);
    return rest;
  }
  static constexpr extent_sum scaled(const extent_sum& s, std::int64_t times, std::int64_t plus, dim_id dim = no_dim,
                                     std::int8_t extents = 0) {
    extent_sum r;
    r.constant = s.constant * times + plus;
    bool met = false;
    for (extent_sum::term t : s.terms) {
      t.times = t.times * times + (t.dim == dim ? extents : 0);
      met = met || t.dim == dim;
      if (t.times != 0) r.terms.push_back(t);
    }
    if (!met && dim != no_dim && extents != 0) r.terms.push_back({dim, extents});
    return r;
  }

  /// The map that solves stride * o + dilation * k + offset = divisor * (sign * j + plus) for o.
  static constexpr back solved(const dim_map& m, std::int64_t sign = 1, std::int64_t plus = 0, std::int8_t extents = 0,
                               back::only where = back::only::everywhere) {
    back b;
    b.where = where;
    b.map.from = m.to;
    b.map.to = m.from;
    b.map.window = m.window;
    const std::int64_t turn = m.stride < 0 ? -1 : 1;
    b.map.stride = turn * m.divisor * sign;
    b.map.dilation = -turn * m.dilation;
    b.map.divisor = turn * m.stride;
    b.map.offset = scaled(m.offset, -turn, turn * m.divisor * plus, m.from, narrowed(turn * m.divisor * extents));
    b.map.at_run_time = m.at_run_time;
    b.map.sign = narrowed(-turn * m.sign);
    return b;
  }

  constexpr indexed_vector<back> ways_back(const dim_map& m) {
    indexed_vector<back> ways;
    if (m.floors) {
      // Each of the copies of an element.
      for (std::int64_t t = 0; t < m.divisor; ++t) {
        back b = solved(m);
        b.map.offset.constant += t;
        ways.push_back(b);
      }
      return ways;
    }
    const std::int64_t n = in_.made().dims[m.from].extent;
    const reach_beyond reach = reach_of(m);
    switch (m.outside) {
      case border::zero: ways.push_back(solved(m)); break;
      case border::periodic:
        if (m.from == m.to && (m.stride == 1 || m.stride == -1)) {
          ways.push_back(solved(m));
          ways.back().map.outside = border::periodic;
        } else {
          // As far around as windows reach: once, or as often as a tiled dim is longer.
          std::int64_t before = reach.low > 0 ? 1 : 0, after = reach.high > 0 ? 1 : 0;
          if (n != dynamic && reach.exact) {
            before = n > 0 ? (reach.low + n - 1) / n : 0;
            after = n > 0 ? (reach.high + n - 1) / n : 0;
          } else if (const std::int64_t tiles = tiles_of(m); tiles > 0) {
            before = 0;
            after = tiles - 1;
          } else {
            need(m, reach, 0);
          }
          for (std::int64_t t = -before; t <= after; ++t)
            ways.push_back(n != dynamic ? solved(m, 1, t * n) : solved(m, 1, 0, narrowed(t)));
        }
        break;
      case border::reflect:
        if (n != dynamic && reach.exact && n > 0 && std::max(reach.low, reach.high) >= n) {
          mirrored_often(m, n, reach, ways);
          break;
        }
        need(m, reach, 1);
        ways.push_back(solved(m));
        if (reach.low > 0) ways.push_back(solved(m, -1, 0, 0, back::only::not_first));
        if (reach.high > 0) ways.push_back(solved(m, -1, -2, 2, back::only::not_last));
        break;
      case border::edge: {
        ways.push_back(solved(m));
        for (std::int64_t t = 1; t <= reach.low; ++t) ways.push_back(solved(m, 1, -t, 0, back::only::first));
        for (std::int64_t t = 1; t <= reach.high; ++t) ways.push_back(solved(m, 1, t, 0, back::only::last));
        break;
      }
    }
    return ways;
  }
  /// The ways back if indices are mirrored more than once, at the ends of a dim of n elements: element j is at 2 (n -
  /// 1) t + j, and at 2 (n - 1) t - j, which is another place only if j is no end.
  constexpr void mirrored_often(const dim_map& m, std::int64_t n, const reach_beyond& reach,
                                indexed_vector<back>& ways) const {
    const std::int64_t turn = 2 * (n - 1), first = -reach.low, last = n - 1 + reach.high;
    if (turn == 0) {
      for (std::int64_t i = first; i <= last; ++i) ways.push_back(solved(m, 1, i));
      return;
    }
    for (std::int64_t t = floor_div(first, turn); t * turn <= last + n; ++t) {
      if (t * turn + n - 1 >= first && t * turn <= last) ways.push_back(solved(m, 1, t * turn));
      if (n > 2 && t * turn - 1 >= first && t * turn - (n - 2) <= last)
        ways.push_back(solved(m, -1, t * turn, 0, back::only::between));
    }
  }
  /// As often as a tiled dim is longer; 0 if it is not tiled.
  constexpr std::int64_t tiles_of(const dim_map& m) const {
    if (m.window != no_dim || m.stride != 1 || !(m.offset == extent_sum{})) return 0;
    for (const derived_extent& d : in_.made().rules.derived)
      if (d.dim == m.to && d.sum.constant == 0 && d.divisor == 1 && d.sum.terms.size() == 1 &&
          d.sum.terms[0].dim == m.from)
        return d.sum.terms[0].times;
    return 0;
  }
  constexpr reach_beyond reach_of(const dim_map& m) const {
    const graph& g = in_.made();
    const std::int64_t window = m.window == no_dim ? 0 : m.dilation * (g.dims[m.window].extent - 1);
    const std::int64_t from = g.dims[m.from].extent, to = g.dims[m.to].extent;
    reach_beyond r;
    r.low = std::max<std::int64_t>(-m.offset.constant, 0);
    if (m.from == m.to && m.stride == 1) {
      r.high = window + m.offset.constant;
      r.exact = true;
    } else if (from != dynamic && to != dynamic) {
      r.high = m.stride * (to - 1) + window + m.offset.constant - (from - 1);
      r.exact = true;
    } else {
      // The last index of the result is at most that of the operand, plus the extra length of a derived extent.
      std::int64_t longer = 0;
      for (const derived_extent& d : g.rules.derived)
        if (d.dim == m.to && d.sum.terms.size() == 1 && d.sum.terms[0].dim == m.from)
          longer = d.sum.constant - (d.divisor == m.stride ? m.stride - 1 : 0);
      r.high = window + m.offset.constant + longer;
    }
    r.high = std::max<std::int64_t>(r.high, 0);
    return r;
  }
  /// Notes that a dim is as long as the parts that are mirrored or repeated once, and so much longer. The reach of
  /// windows beyond the end depends on the extent, because their stride need not end there.
  constexpr void need(const dim_map& m, const reach_beyond& reach, std::int64_t longer) {
    const auto note = [&](std::int64_t least, std::int64_t times, std::int64_t other_times) {
      in_.extent_at_least({m.from, least, true, m.from == m.to ? no_dim : m.to, times, other_times}, name_of(n_.code),
                          n_.where);
    };
    const std::int64_t window = m.window == no_dim ? 0 : m.dilation * (in_.made().dims[m.window].extent - 1);
    if (reach.low > 0) note(reach.low + longer, 1, 0);
    if (reach.high == 0) return;
    if (m.from == m.to) note(reach.high + longer, 1, 0);
    else note(window + m.offset.constant - m.stride + 1 + longer, 2, m.stride);
  }

  constexpr value combine(const indexed_vector<dim_map>& maps, std::size_t next, indexed_vector<back>& so_far,
                          const tensor_type& to) {
    if (next == maps.size()) return taken_back(so_far, to);
    value total{};
    for (const back& b : ways_back(maps[next])) {
      so_far.push_back(b);
      const value part = combine(maps, next + 1, so_far, to);
      so_far.pop_back();
      if (!part.ok()) return part;
      total = total.in == nullptr ? part : in_.elementwise(op::add, std::array{total, part}, n_.where);
    }
    return total;
  }

  constexpr value taken_back(const indexed_vector<back>& ways, const tensor_type& to) {
    tensor_type type = in_.at(g_).type;
    dim_set windows = 0;
    bool folds = false;
    indexed_vector<dim_map> maps;
    std::array<value, 2> args{g_, value{}};
    std::size_t arity = 1;
    for (const back& b : ways) {
      for (int i = 0; i < type.rank; ++i)
        if (type[i] == b.map.from) type.dims[i] = b.map.to;
      dim_map m = b.map;
      if (m.window != no_dim && !to.has(m.window)) windows |= dim_bit(m.window);
      folds = folds || (m.window != no_dim && type.has(m.window));
      // A window that the operand has too is there again in its cotangent.
      if (m.window != no_dim && !type.has(m.window)) type.append(m.window);
      if (m.at_run_time != 0) {
        args[1] = operands_[m.at_run_time];
        m.at_run_time = 1;
        arity = 2;
      }
      maps.push_back(m);
    }
    // A cotangent that all elements of a window share lacks its dim, and is seen through windows.
    const op code = windows != 0 || n_.code == op::fold_windows ? (folds ? op::fold_windows : op::windows)
                    : n_.code == op::concat                     ? op::slice
                    : n_.code == op::dynamic_pad                ? op::dynamic_slice
                                                                : n_.code;
    value back_there = in_.remap(code, indexed_span<const value>(args.data(), arity), maps, type, n_.where);
    if (windows != 0 && back_there.ok()) back_there = in_.reduce(reduction::sum, back_there, windows, n_.where);
    for (const back& b : ways)
      if (b.where != back::only::everywhere && back_there.ok()) back_there = only_where(b, back_there);
    return back_there;
  }
  /// 0 but for the indices for which a way back holds.
  constexpr value only_where(const back& b, value x) {
    const op_builder apply(in_, n_.where);
    const value index = apply.index(b.map.to);
    const value one = apply.number(1, element::i64), first = apply.number(0, element::i64);
    const value last = apply(op::sub, in_.count(dim_bit(b.map.to), element::i64, n_.where), one);
    const bool at_end = b.where == back::only::last || b.where == back::only::not_last;
    const bool is = b.where == back::only::first || b.where == back::only::last;
    value there = apply(is ? op::equal : op::not_equal, index, at_end ? last : first);
    if (b.where == back::only::between) there = apply(op::logical_and, there, apply(op::not_equal, index, last));
    return apply(op::select, there, x, apply.number(0, in_.at(x).type.element));
  }

  constexpr value on_diagonal() {
    const op_builder apply(in_, n_.where);
    const dim_map a = in_.made().maps[n_.first_map], b = in_.made().maps[as_size(n_.first_map + 1)];
    const value row = apply.index(a.from), column = apply.index(b.from);
    return apply(op::select, apply(op::equal, row, column), g_, apply.number(0, in_.at(g_).type.element));
  }

  recorder& in_;
  const node n_;
  value g_;
  indexed_span<const value> operands_;
};

}}} // namespace cleave::v0::detail
