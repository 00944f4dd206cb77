// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/layout/blocks.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/program/program.hpp>
#include <cleave/simulate/array.hpp>
#include <cleave/simulate/scalar.hpp>

#include <algorithm>
#include <string>

// Moves between devices, done literally: each device's elements afterwards are copied from memories of devices, and
// counted. No price and no closed form of the planner is used here.

namespace cleave { inline namespace v0 { namespace simulation {

/// Calls each(position in the array of `a`, position in that of `b`) for the elements of a part of both.
template <class Each>
void for_each_of(const box& part, const box& a, const box& b, Each&& each) {
  if (part.empty()) return;
  const strides sa = strides_of(a.extents()), sb = strides_of(b.extents());
  std::int64_t at = 0, bt = 0;
  streamed_loops loops(2);
  for (int i = 0; i < part.rank; ++i) {
    at += (part[i].begin - a[i].begin) * sa[i];
    bt += (part[i].begin - b[i].begin) * sb[i];
    loops.add(part[i].size(), std::array{sa[i], sb[i]});
  }
  loops.run({at, bt}, [&](const std::int64_t* o, std::int64_t n, const std::int64_t* step) {
    for (std::int64_t i = 0; i < n; ++i) each(o[0] + i * step[0], o[1] + i * step[1]);
  });
}

inline bool agree_outside(const coordinates& a, const coordinates& b, axis_set axes) {
  for (std::size_t i = 0; i < max_axes; ++i)
    if (!axes.contains(i) && a[i] != b[i]) return false;
  return true;
}
inline bool agree_on(const coordinates& a, const coordinates& b, axis_set axes) { return agree_outside(a, b, ~axes); }
/// The devices of a group in the order of their coordinates; every member finds the same list.
inline indexed_vector<std::size_t> group_of(std::size_t device, axis_set axes,
                                            const indexed_vector<coordinates>& where) {
  indexed_vector<std::size_t> members;
  for (std::size_t d = 0; d < where.size(); ++d)
    if (agree_outside(where[d], where[device], axes)) members.push_back(d);
  return members;
}

/// One move of a program, for all devices.
class mover {
 public:
  mover(const step& s, const buffer& from, const buffer& to, const shape& global, const axis_sizes& axes,
        const indexed_vector<coordinates>& where)
      : s_(s), from_(from), to_(to), global_(global), axes_(axes), where_(where) {
    for (const coordinates& at : where) {
      have_.push_back(box_of(global, from.where, at, axes));
      want_.push_back(box_of(global, to.where, at, axes));
    }
  }

  /// The elements of every device afterwards.
  indexed_vector<elements> made{};
  /// Bytes of the busiest device by the table of docs/12-cost.md, of the elements really moved.
  std::int64_t bytes = 0;
  /// Bytes that each device took from others, whatever the charge.
  indexed_vector<std::int64_t> received{};
  std::string problem{};

  void run(const indexed_vector<const double*>& memory) {
    memory_ = memory;
    made.resize(where_.size());
    received.assign(where_.size(), 0);
    const axis_set gone = from_.where.unreduced() - to_.where.unreduced();
    const axis_set fresh = to_.where.unreduced() - from_.where.unreduced();
    const bool reduces = s_.move == kind::all_reduce || s_.move == kind::reduce_scatter;
    if (gone != (reduces ? s_.axes : axis_set{})) problem = "resolves other partial axes than its own";
    if (fresh != (s_.move == kind::mask ? s_.axes : axis_set{})) problem = "makes a whole value partial";
    if ((reduces || s_.move == kind::all_reduce || s_.move == kind::mask) && from_.where.unreduced() != 0 &&
        s_.combine != from_.where.combine())
      problem = "combines partial values by another reduction than their own";
    if ((s_.move == kind::all_reduce || s_.move == kind::mask) && have_ != want_) problem = "also moves blocks";
    if (!problem.empty()) return;
    switch (s_.move) {
      case kind::mask: return mask();
      case kind::all_reduce: return all_reduce();
      case kind::reduce_scatter: return reduce_scatter();
      case kind::slice:
      case kind::all_gather:
      case kind::all_to_all:
      case kind::collective_permute: return exchange();
      case kind::exchange:
      case kind::scan:
      case kind::none: problem = "is no move";
    }
  }

 private:
  std::int64_t size() const { return size_of(from_.type.element); }
  std::int64_t members() const { return axes_.product(s_.axes); }

  void mask() {
    for (std::size_t d = 0; d < where_.size(); ++d) {
      bool keeps = true;
      for (std::size_t a = 0; a < max_axes; ++a) keeps = keeps && ((s_.axes >> a & 1) == 0 || where_[d][a] == 0);
      const double identity = identity_of(to_.where.combine(), to_.type.element);
      const std::int64_t n = want_[d].elements();
      if (keeps) made[d].assign(memory_[d], memory_[d] + n);
      else made[d] = elements::filled(n, identity);
    }
  }

  /// A box, within the common box of all members of the group, combined over them in their order.
  elements combined_over(const indexed_vector<std::size_t>& group, const box& part) {
    auto total = elements::filled(part.elements());
    for (std::size_t k = 0; k < group.size(); ++k) {
      if (have_[group[k]] != have_[group[0]]) problem = "combines blocks of different indices";
      for_each_of(part, have_[group[k]], part, [&](std::int64_t from, std::int64_t to) {
        const double x = memory_[group[k]][from];
        total[to] = k == 0 ? x : combined(s_.combine, from_.type.element, total[to], x);
      });
    }
    return total;
  }
  std::int64_t largest_operand() const {
    std::int64_t n = 0;
    for (const box& b : have_) n = std::max(n, b.elements() * size());
    return n;
  }

  void all_reduce() {
    for (std::size_t d = 0; d < where_.size(); ++d) made[d] = combined_over(group_of(d, s_.axes, where_), have_[d]);
    bytes += 2 * (members() - 1) * largest_operand() / members();
  }

  void reduce_scatter() {
    bool nested = true;
    for (std::size_t d = 0; d < where_.size(); ++d) nested = nested && want_[d].inside(have_[d]);
    if (!nested) {
      // Reduced everywhere, then every device fetches the elements that it lacks.
      all_reduce();
      const indexed_vector<elements> whole = std::move(made);
      for (std::size_t d = 0; d < where_.size(); ++d) memory_[d] = whole[d].data();
      made.assign(where_.size(), {});
      return exchange();
    }
    std::int64_t busiest = 0;
    for (std::size_t d = 0; d < where_.size(); ++d) {
      made[d] = combined_over(group_of(d, s_.axes, where_), want_[d]);
      if (members() > 1) busiest = std::max(busiest, (have_[d].elements() - want_[d].elements()) * size());
    }
    bytes += busiest;
  }

  /// Every device's new block, from its own memory if it can be, else from devices that have it.
  void exchange() {
    // Blocks that divide evenly stay within the devices of the axes; others may have to come from anywhere.
    bool even = true;
    for (int i = 0; i < global_.rank; ++i)
      if (from_.where[i] != to_.where[i])
        even = even && global_.along(i).even(axes_.product(from_.where[i])) &&
               global_.along(i).even(axes_.product(to_.where[i]));
    std::int64_t busiest = 0;
    for (std::size_t d = 0; d < where_.size(); ++d) {
      std::int64_t missing = want_[d].elements();
      made[d] = elements::filled(missing);
      auto filled = indexed_vector<char>::filled(missing);
      const auto take = [&](std::size_t source) {
        for_each_of(intersect(want_[d], have_[source]), have_[source], want_[d],
                    [&](std::int64_t from, std::int64_t to) {
                      if (filled[to]) return;
                      filled[to] = 1;
                      --missing;
                      made[d][to] = memory_[source][from];
                      if (source != d) received[d] += size();
                    });
      };
      take(d);
      for (std::size_t source = 0; source < where_.size() && missing > 0; ++source)
        if ((!even || agree_outside(where_[source], where_[d], s_.axes)) &&
            agree_on(where_[source], where_[d], to_.where.unreduced()))
          take(source);
      if (missing > 0) problem = "leaves elements that no device of its axes has";
      busiest = std::max(busiest, received[d]);
    }
    bytes += busiest;
  }

  const step& s_;
  const buffer &from_, &to_;
  const shape& global_;
  const axis_sizes& axes_;
  const indexed_vector<coordinates>& where_;
  indexed_vector<box> have_{}, want_{};
  indexed_vector<const double*> memory_{};
};

}}} // namespace cleave::v0::simulation
