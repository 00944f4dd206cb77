// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/exchange_spec.hpp>
#include <cleave/program/move_scratch.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>

// Which devices of a mesh need the same memory, so that a mesh of a million devices is not enumerated.

namespace cleave { inline namespace v0 { namespace detail {

/// Classes of devices: along each axis, intervals of coordinates. Devices whose coordinates are in the same intervals
/// are alike; the first of each stands for all.
class device_classes {
 public:
  constexpr explicit device_classes(const axis_sizes& sizes) : sizes_(sizes) {
    for (indexed_vector<std::int32_t>& a : begins_) a.push_back(0);
  }
  /// An interval begins at a coordinate.
  constexpr void begin_at(int axis, std::int64_t c) {
    if (c <= 0 || c >= sizes_[axis]) return;
    indexed_vector<std::int32_t>& all = begins_[axis];
    const auto at = std::lower_bound(all.begin(), all.end(), c);
    if (at == all.end() || *at != c) all.insert(at, static_cast<std::int32_t>(c));
  }
  constexpr void alone(int axis, std::int64_t c) {
    begin_at(axis, c);
    begin_at(axis, c + 1);
  }
  /// Every coordinate of some axes is a class.
  constexpr void each(axis_set axes) {
    for (int a : axes) {
      begins_[a].resize(as_size(sizes_[a]), 0);
      for (std::size_t c = 0; c < begins_[a].size(); ++c) begins_[a][c] = static_cast<std::int32_t>(c);
    }
  }
  /// Devices of a class are all before a block, all at it, or all behind it: these follow from comparing digits.
  constexpr void tell_apart(axis_list list, std::int64_t block) {
    if (block < 0 || block >= sizes_.product(list)) return;
    for (int i = list.size(); i-- > 0; block /= sizes_[list[i]]) alone(list[i], block % sizes_[list[i]]);
  }
  /// Tells blocks apart that are short or empty, and all that have given sizes.
  constexpr void tell_lengths_apart(const dim_blocks& dim, axis_list list) {
    const std::int64_t parts = sizes_.product(list);
    if (dim.given != nullptr) each(list.mask());
    else if (!dim.even(parts)) tell_apart(list, dim.owner(parts, dim.extent));
  }
  /// Classes that are within one class of these and of others.
  constexpr void refine(const device_classes& others, axis_set along) {
    for (int a : along)
      for (std::int32_t c : others.begins_[a]) begin_at(a, c);
  }
  /// The number of classes, of devices with coordinate 0 on the other axes.
  constexpr std::int64_t count(axis_set along) const {
    std::int64_t n = 1;
    for (int a : along) n = times(n, std::ssize(begins_[a]));
    return n;
  }
  /// Calls f(coordinates) for one device of each class, in an order of their numbers.
  template <class F>
  constexpr void for_each(axis_set along, F&& f) const {
    coordinates here{};
    walk(along, 0, here, f);
  }
  /// The number of a device's class.
  constexpr std::size_t number_of(axis_set along, const coordinates& here) const {
    std::size_t n = 0;
    for (int a : along) {
      const auto behind = std::upper_bound(begins_[a].begin(), begins_[a].end(), here[a]);
      n = n * begins_[a].size() + as_size(behind - begins_[a].begin() - 1);
    }
    return n;
  }

 private:
  template <class F>
  constexpr void walk(axis_set along, int axis, coordinates& here, F&& f) const {
    while (axis < max_axes && !along.contains(axis)) ++axis;
    if (axis == max_axes) return f(std::as_const(here));
    for (std::int32_t c : begins_[axis]) {
      here[axis] = c;
      walk(along, axis + 1, here, f);
    }
  }

  axis_sizes sizes_;
  indexed_vector<std::int32_t> begins_[max_axes];
};

/// Tells devices apart whose shards, halos or loops are not equally large. No result by value: in constant evaluation
/// g++ 12 destroys it too early.
constexpr void tell_lengths_apart(const program_view& p, const sizes& at, device_classes& all) {
  for (const buffer& b : p.buffers) {
    for (int i = 0; i < b.type.rank; ++i) all.tell_lengths_apart(at.along(b.type[i]), b.where[i]);
    if (has_neighbours(b))
      for (const dim_map& m : p.maps.subspan(b.first_map, b.maps))
        all.tell_lengths_apart(at.along(m.to), b.where[b.type.find(m.from)]);
  }
  for (const step& s : p.steps)
    for (int i = 0; i < s.loop.rank; ++i) all.tell_lengths_apart(at.along(s.loop[i]), s.space[i]);
}

/// The classes of devices for one exchange. Far from the ends of a dim, where neither blocks nor sources are cut off,
/// mirrored or wrapped, all devices exchange the same with devices at the same distances. If outside of equally large
/// blocks there is nothing, a class may have devices that exchange less than its first one, or than another class.
class classes_of_exchange {
 public:
  /// `by_length`: the classes of devices with equally large shards.
  constexpr classes_of_exchange(const comm::exchange_spec& e, const device_classes& by_length, device_classes& all)
      : e_(e), by_length_(by_length), all_(all) {
    for (int a = 0; a < max_axes; ++a)
      if (e.at.axes[a] > 1 && has_effect(a) && !is_along_blocks(a)) all.each(axis_bit(a));
  }

 private:
  /// The dim that an axis shards; -1: none.
  static constexpr int sharded_by(const buffer& b, int axis) {
    for (int i = 0; i < b.type.rank; ++i)
      if (b.where[i].contains(axis)) return i;
    return -1;
  }
  constexpr bool has_effect(int axis) const {
    bool any = e_.out.where.used().contains(axis);
    for (const buffer& b : e_.in) any = any || b.where.used().contains(axis);
    return any;
  }
  /// Whether devices along an axis have blocks of a dim and fetch from the blocks before and behind; if so, tells those
  /// near the ends apart.
  constexpr bool is_along_blocks(int axis) {
    const int to = sharded_by(e_.out, axis);
    if (to < 0) return false;
    for (std::size_t k = 0; k < e_.in.size(); ++k) {
      const buffer& in = e_.in[k];
      const int from = sharded_by(in, axis);
      if (e_.is_region() ? !is_region_along(from, to) : !is_mapped_along(k, from, to)) return false;
    }
    return true;
  }
  constexpr bool is_region_along(int from, int to) {
    if (from != to || e_.in[0].where[from] != e_.out.where[to]) return false;
    for (const dim_map& m : e_.region)
      if (m.from == e_.in[0].type[from])
        return tell_ends_apart(e_.out.where[to], m, m.offset.constant, m.offset.constant + m.dilation);
    return true;
  }
  constexpr bool is_mapped_along(std::size_t operand, int from, int to) {
    const buffer& in = e_.in[operand];
    const dim_map* only = nullptr;
    for (const dim_map& m : e_.maps) {
      if (m.operand != operand) continue;
      const bool reads = from >= 0 && m.from == in.type[from], fills = m.to == e_.out.type[to];
      if (m.window != no_dim && m.window == e_.out.type[to]) return false;
      if (reads != fills || (reads && only != nullptr)) return false;
      if (reads) only = &m;
    }
    // The operand has all that the device needs of this dim, or the same block of it.
    if (only == nullptr) {
      const int same = in.type.find(e_.out.type[to]);
      return from < 0 ? same >= 0 && in.where[same].empty() : same == from && in.where[from] == e_.out.where[to];
    }
    if (in.where[from] != e_.out.where[to] || only->at_run_time != 0 || only->stride <= 0) return false;
    const std::int64_t offset = evaluated(only->offset, e_.at),
                       last = only->window == no_dim ? 0 : only->dilation * (e_.at[only->window] - 1);
    return tell_ends_apart(in.where[from], *only, offset + std::min<std::int64_t>(last, 0),
                           offset + std::max<std::int64_t>(last, 0));
  }
  /// The sources of index i are in [stride * i + first, stride * i + last], divided. Whether blocks of the result and
  /// of the operand advance together.
  constexpr bool tell_ends_apart(axis_list list, const dim_map& m, std::int64_t first, std::int64_t last) {
    const dim_blocks from = e_.at.along(m.from), to = e_.at.along(m.to);
    const std::int64_t extent = to.extent, blocks = e_.at.axes.product(list), filled = to.longest(blocks),
                       length = from.longest(blocks);
    if (from.given != nullptr || to.given != nullptr) return false;
    if (filled == 0 || length == 0 || length * m.divisor != m.stride * filled) return false;
    // How many blocks away they are, at most; and the numbers of full blocks.
    const std::int64_t low = floor_div(floor_div(first, m.divisor), length),
                       high = floor_div(floor_div(last + m.stride * (filled - 1), m.divisor), length),
                       far = std::max(high < 0 ? -high : high, low < 0 ? -low : low),
                       ends[] = {extent / filled, e_.at[m.from] / length};
    const bool alike = extent == filled * blocks && e_.at[m.from] == length * blocks &&
                       by_length_.count(list.mask()) == 1;
    if (alike && m.outside == border::periodic) return true;
    if (alike && m.outside == border::zero) {
      // Those with the most neighbours, on both sides together.
      const std::int64_t inner = std::min(far, blocks - 1), other = blocks - 1 - inner;
      for (std::int64_t k = std::min(inner, other); k <= inner; ++k) all_.tell_apart(list, k);
      return true;
    }
    const std::int64_t apart = ends[0] < ends[1] ? ends[1] - ends[0] : ends[0] - ends[1];
    // A device sends to those whose sources are near it; borders mirror and wrap the sources that are missing at an
    // end.
    const std::int64_t reach = 2 * far + 2 + apart;
    if (reach >= blocks) return false;
    for (std::int64_t k = 0; k < reach; ++k) all_.tell_apart(list, k);
    for (std::int64_t k = std::min(ends[0], ends[1]) - reach; k <= std::max(ends[0], ends[1]) + reach; ++k)
      all_.tell_apart(list, k);
    return true;
  }

  const comm::exchange_spec& e_;
  const device_classes& by_length_;
  device_classes& all_;
};

/// The most bytes that a general move packs on any device. It is reached if some device lacks all that it needs and
/// each sends as many parts as there are for it, of the largest size.
constexpr std::int64_t most_scratch_of_permute(const comm::transfer& t, const axis_sizes& sizes) {
  box part, sent, received;
  part.rank = sent.rank = received.rank = t.global.rank;
  // The receivers of one shard, and the devices that have it and take turns.
  const axis_set apart = t.from.unreduced() | t.to.sharded();
  std::int64_t receivers = sizes.product(~apart);
  const std::int64_t senders = sizes.product(~t.from.used());
  bool alike = true;
  for (int i = 0; i < t.global.rank; ++i) {
    const std::int64_t before = sizes.product(t.from[i]), after = sizes.product(t.to[i]),
                       from = t.global.along(i).longest(before), to = t.global.along(i).longest(after);
    if (from == 0 || to == 0) return 0;
    const bool given = t.global.given[i] != nullptr, nested = !given && t.global[i] % before == 0 &&
                                                              t.global[i] % after == 0 &&
                                                              (from % to == 0 || to % from == 0);
    alike = alike && nested;
    receivers = times(receivers, nested ? std::max<std::int64_t>(from / to, 1) : given ? after : (from - 1) / to + 2);
    part[i] = {0, std::min(from, to)};
    sent[i] = {0, from};
    received[i] = {0, to};
  }
  const bool sends_runs = alike && copy_to_packed(part, sent, 0).contiguous(),
             receives_runs = alike && copy_from_packed(part, received, 0).contiguous();
  const std::int64_t bytes = size_of(t.element);
  return (sends_runs ? 0 : aligned((receivers + senders - 1) / senders * part.elements() * bytes)) +
         (receives_runs ? 0 : aligned(received.elements() * bytes));
}

}}} // namespace cleave::v0::detail
