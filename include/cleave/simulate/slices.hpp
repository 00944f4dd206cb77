// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/simulate/devices.hpp>

namespace cleave { inline namespace v0 { namespace simulation {

/// The steps for which devices look into each other's slices: look-ups, sums at indices, running totals, sorting.
class slice_steps : protected devices {
 protected:
  using devices::devices;

  /// Rows at indices, from the device's own block of the table or from that of their owner. The bytes moved depend on
  /// the indices; charged is the price.
  void gather(const step& s) {
    const buffer &table = p_.buffers[s.in[0]], &indices = p_.buffers[s.in[1]], &to = p_.buffers[s.out];
    indexed_vector<elements> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, to.type, to.where), asked = part(d, indices.type, indices.where);
      made[d] = elements::filled(mine.elements());
      for_each_index(mine, [&](const position& index, std::int64_t offset) {
        const auto source = row_of(table.type, indices.type, to.type, dim_along(s), at_[dim_along(s)], index,
                                   [&](const position& i) {
                                     if (holds(asked, i)) return data(d, indices)[offset_in(asked, i)];
                                     complain("looks up at indices that it does not hold");
                                     return -1.0;
                                   });
        if (!source || !out_.problem.empty()) return;
        std::size_t owner = where_.size();
        for (std::size_t other = 0; other < where_.size() && owner == where_.size(); ++other)
          if (agree_outside(where_[other], where_[d], s.axes) && holds(part(other, table.type, table.where), *source))
            owner = other;
        // If devices look up their own rows, the others have 0.
        const axis_set alone = table.where[table.type.find(dim_along(s))].mask() - s.axes;
        if (owner == where_.size() && !alone.empty() && to.where.unreduced().includes(alone)) return;
        if (owner == where_.size()) return complain("needs a row that no device of its group has");
        made[d][offset] = data(owner, table)[offset_in(part(owner, table.type, table.where), *source)];
      });
    }
    put(made, to);
    moved_ = step_bytes(p_, s, at_);
  }

  /// Rows added up at indices: on every device those of all devices among which rows are sent, in their order.
  void scatter(const step& s) {
    const buffer &rows = p_.buffers[s.in[0]], &indices = p_.buffers[s.in[1]], &to = p_.buffers[s.out];
    indexed_vector<elements> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, to.type, to.where);
      made[d] = elements::filled(mine.elements());
      for (std::size_t sender : group_of(d, s.axes, where_)) {
        const box sent = part(sender, rows.type, rows.where), asked = part(sender, indices.type, indices.where);
        for_each_index(sent, [&](const position& index, std::int64_t offset) {
          const auto target = row_of(to.type, indices.type, rows.type, dim_along(s), at_[dim_along(s)], index,
                                     [&](const position& i) {
                                       if (holds(asked, i)) return data(sender, indices)[offset_in(asked, i)];
                                       complain("adds rows at indices that it does not hold");
                                       return -1.0;
                                     });
          if (!target || !out_.problem.empty()) return;
          for (int i = 0; i < to.type.rank; ++i)
            if (to.type[i] != dim_along(s) && ((*target)[i] < mine[i].begin || (*target)[i] >= mine[i].end))
              return complain("is sent rows of other columns");
          if (!holds(mine, *target)) return;
          double& total = made[d][offset_in(mine, *target)];
          total = combined(reduction::sum, to.type.element, total, data(sender, rows)[offset]);
        });
      }
    }
    put(made, to);
    moved_ = step_bytes(p_, s, at_);
  }

  /// Running totals and recurrences: every device on its own block, then combined with the totals of the devices before
  /// it.
  void scan(const step& s) {
    const buffer& to = p_.buffers[s.out];
    const int along = to.type.find(dim_along(s));
    for (const std::uint16_t from : s.in)
      if (!(p_.buffers[from].type == to.type) || !(p_.buffers[from].where == to.where))
        return complain("scans into another layout");
    const axis_list list = to.where[along];
    const element e = to.type.element;
    const bool recurs = s.what == op::recurrence;
    // The affine map x -> total + factor * x of a segment of a recurrence; of a running total, its total.
    struct stretch {
      double total, factor = 1;
    };
    const auto after = [&](double before, const stretch& done) {
      if (recurs) before = combined(reduction::prod, e, done.factor, before);
      return recurs ? combined(reduction::sum, e, before, done.total) : combined(s.combine, e, before, done.total);
    };
    const auto take = [&](stretch& done, std::size_t device, std::int64_t at) {
      stretch one{data(device, p_.buffers[s.in[0]])[at]};
      if (recurs) one.factor = data(device, p_.buffers[s.in[1]])[at];
      done = {after(done.total, one), combined(reduction::prod, e, done.factor, one.factor)};
    };
    std::int64_t busiest = 0;
    indexed_vector<elements> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, to.type, to.where);
      made[d] = elements::filled(mine.elements());
      const std::int64_t length = mine[along].size(), step = strides_of(mine.extents())[along];
      // The devices before this one, in the order of their blocks.
      indexed_vector<std::pair<std::int64_t, std::size_t>> before;
      const std::int64_t own = block_index(list, where_[d], at_.axes);
      for (std::size_t other = 0; other < where_.size(); ++other) {
        const std::int64_t theirs = block_index(list, where_[other], at_.axes);
        if (agree_outside(where_[other], where_[d], s.axes) && (s.backwards ? theirs > own : theirs < own))
          before.push_back({s.backwards ? -theirs : theirs, other});
      }
      std::sort(before.begin(), before.end());
      std::int64_t slices = 0;
      box first = mine;
      first.along[along] = {0, 1};
      for_each_index(first, [&](const position& index, std::int64_t) {
        ++slices;
        double total = identity_of(s.combine, e);
        for (const auto& [block, other] : before) {
          const box theirs = part(other, to.type, to.where);
          stretch sum{identity_of(s.combine, e)};
          position at = index;
          for (std::int64_t i = 0; i < theirs[along].size(); ++i) {
            at[along] = s.backwards ? theirs[along].end - 1 - i : theirs[along].begin + i;
            take(sum, other, offset_in(theirs, at));
          }
          total = after(total, sum);
        }
        position at = index;
        at[along] = mine[along].begin;
        const std::int64_t start = length > 0 ? offset_in(mine, at) : 0;
        // A recurrence starts from there.
        stretch sum{recurs ? total : identity_of(s.combine, e)};
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t here = start + (s.backwards ? length - 1 - i : i) * step;
          const double so_far = sum.total;
          take(sum, d, here);
          const double x = s.exclusive ? so_far : sum.total;
          made[d][here] = recurs ? x : combined(s.combine, e, total, x);
        }
      });
      if (at_.axes.product(list) > 1) busiest = std::max(busiest, (recurs ? 2 : 1) * slices * size_of(e));
    }
    put(made, to);
    moved_ = busiest;
  }

  /// Operations that depend on the order within slices: each operand is put together from the devices among which the
  /// step communicates, and each device keeps its own part of the result.
  void on_slices(const step& s) {
    const buffer& to = p_.buffers[s.out];
    for (std::uint16_t b : s.in)
      if (!blocks_agree(p_.buffers[b], to)) return complain("works on slices in other blocks than those of its result");
    if (to.type.has(dim_along(s)) && p_.buffers[s.in[0]].type.dims != to.type.dims)
      return complain("sorts into another memory order");
    indexed_vector<elements> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      indexed_vector<host_array> arrays;
      arrays.reserve(s.in.size());
      indexed_vector<slice_tensor> from;
      for (std::uint16_t b : s.in) {
        const buffer& in = p_.buffers[b];
        arrays.push_back(joined(d, in, s.axes));
        from.push_back({placed(in.type, arrays.back().extents), &arrays.back()});
      }
      const box all = shared(d, to, s.axes), mine = part(d, to.type, to.where);
      host_array out(all.extents());
      compute_on_slices({s.what, dim_along(s), s.backwards}, from, to.type, out);
      made[d] = elements::filled(mine.elements());
      for_each_index(mine, [&](const position& index, std::int64_t offset) {
        made[d][offset] = out.data[offset_in(all, index)];
      });
    }
    put(made, to);
    moved_ = step_bytes(p_, s, at_);
  }

 private:
  /// Whether two tensors have the dims that they share in the same blocks.
  static bool blocks_agree(const buffer& a, const buffer& b) {
    for (int i = 0; i < a.type.rank; ++i)
      if (const int other = b.type.find(a.type[i]); other >= 0 && a.where[i] != b.where[other]) return false;
    return true;
  }
  /// The elements that the devices have which differ from one only along some axes.
  box shared(std::size_t d, const buffer& b, axis_set axes) {
    box all = part(d, b.type, b.where);
    for (std::size_t other : group_of(d, axes, where_)) {
      const box theirs = part(other, b.type, b.where);
      for (int i = 0; i < all.rank; ++i)
        all[i] = {std::min(all[i].begin, theirs[i].begin), std::max(all[i].end, theirs[i].end)};
    }
    return all;
  }
  host_array joined(std::size_t d, const buffer& b, axis_set axes) {
    const box all = shared(d, b, axes);
    host_array whole(all.extents());
    for (std::size_t other : group_of(d, axes, where_))
      for_each_index(part(other, b.type, b.where), [&](const position& index, std::int64_t offset) {
        whole.data[offset_in(all, index)] = data(other, b)[offset];
      });
    return whole;
  }
};

}}} // namespace cleave::v0::simulation
