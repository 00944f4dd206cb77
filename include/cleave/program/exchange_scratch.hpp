// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/layout/holders.hpp>
#include <cleave/program/exchange_pieces.hpp>

#include <algorithm>

// The memory that an exchange needs in addition to its operands and its result: for messages that are not one run of
// memory on this device, and for sources that are used several times. Exchanges allocate it, and plans predict it.

namespace cleave { inline namespace v0 { namespace comm {

/// Elements of the packed messages of each direction, and of sources that are used several times.
struct exchange_room {
  std::int64_t sent = 0, received = 0, staged = 0;

  constexpr std::int64_t bytes(element e) const {
    return aligned(sent * size_of(e)) + aligned(received * size_of(e)) + aligned(staged * size_of(e));
  }
};

/// The longest message, in bytes, that travels as a part of another one. A longer one would be copied twice, for one
/// latency less. Not measured.
inline constexpr std::int64_t joined_message_bytes = 1 << 16;

/// Whether some offset is known only when the exchange runs.
constexpr bool moves_at_run_time(const exchange_spec& e) {
  for (const dim_map& m : e.maps)
    if (m.at_run_time != 0) return true;
  return false;
}
/// The shard of an operand on a device.
constexpr box shard_of(const exchange_spec& e, std::size_t operand, const coordinates& at) {
  const buffer& b = e.in[operand];
  return box_of(shape_of(b.type, e.at), b.where, at, e.at.axes);
}
/// Whether one of two devices may have elements of an operand that the other one needs.
constexpr bool shares(const exchange_spec& e, std::size_t operand, const coordinates& a, const coordinates& b) {
  return same_along(~e.fetched(operand), a, b);
}

namespace detail {

/// Indices of an operand, along each dim: at least those that some devices fill their buffers from.
struct operand_sources {
  struct along_dim {
    int dim;
    indexed_vector<index_run> runs;
  };
  indexed_vector<along_dim> dims{};

  constexpr void add(int dim, range all) { dims.push_back({dim, {{0, 1, all.begin, 1, all.size()}}}); }
  /// Whether a device of a block may have one of them.
  constexpr bool may_be_on(const exchange_spec& e, std::size_t operand, const device_block& d) const {
    const buffer& b = e.in[operand];
    for (const along_dim& s : dims) {
      const range there = held_by(d, e.at.along(b.type[s.dim]), b.where[s.dim], e.at.axes);
      bool any = false;
      for (const index_run& r : s.runs) any = any || within(r, there).count > 0;
      if (!any) return false;
    }
    return true;
  }
};
/// The sources from which the devices of a block fill their buffers.
constexpr operand_sources sources_of(const exchange_spec& e, std::size_t operand, const device_block& d) {
  operand_sources all;
  const tensor_type& in = e.in[operand].type;
  const auto filled = [&](int i) { return held_by(d, e.at.along(e.out.type[i]), e.out.where[i], e.at.axes); };
  dim_set mapped{};
  if (e.is_region())
    for (const dim_map& m : e.region) {
      const int i = in.find(m.from);
      const range block = held_by(d, e.at.along(m.to), e.out.where[i], e.at.axes);
      all.dims.push_back({i, runs_of({1, 0, 1, false, m.outside, e.at[m.from]}, region_range(m, block))});
      mapped |= dim_bit(m.from);
    }
  else
    for (const dim_map& m : e.maps) {
      if (m.operand != operand) continue;
      mapped |= dim_bit(m.from);
      if (m.window != no_dim) mapped |= dim_bit(m.window);
      const range to = filled(e.out.type.find(m.to));
      if (const dim_map* const major = major_of(e, operand, m.to); major != nullptr) {
        // Of two dims that become one, the minor one may have any index.
        const std::int64_t length = e.at[m.from];
        if (&m != major && length > 0 && to.size() > 0)
          all.add(in.find(major->from), {to.begin / length, (to.end - 1) / length + 1});
        continue;
      }
      indexed_vector<index_run> runs;
      for (std::int64_t w = 0; w < (m.window != no_dim ? e.at[m.window] : 1); ++w)
        for (const index_run& r : runs_of(bound(m, e.at, w), to)) runs.push_back(r);
      all.dims.push_back({in.find(m.from), std::move(runs)});
    }
  for (int i = 0; i < in.rank; ++i)
    if (!mapped.contains(in[i])) all.add(i, filled(e.out.type.find(in[i])));
  return all;
}

} // namespace detail

/// Calls f(device, coordinates), in the order of devices, for those with which this one exchanges anything, itself
/// among them, and perhaps for some others. If offsets are known only at run time, for all that it may exchange
/// anything with.
template <class F>
constexpr void for_each_member(const exchange_spec& e, const coordinates& here, F&& f) {
  const device_block self(~axis_set{}, here, e.at.axes);
  axis_set over;
  indexed_vector<detail::operand_sources> own(e.in.size());
  const bool any = moves_at_run_time(e);
  for (std::size_t k = 0; k < e.in.size(); ++k) {
    if (!e.takes_from(k)) continue;
    over |= e.fetched(k);
    if (!any) own[k] = detail::sources_of(e, k, self);
  }
  const auto may = [&](const device_block& d) {
    if (any || d.meets(~axis_set{}, here)) return true;
    for (std::size_t k = 0; k < e.in.size(); ++k)
      if (e.takes_from(k) && d.meets(~e.fetched(k), here) &&
          (own[k].may_be_on(e, k, d) || detail::sources_of(e, k, d).may_be_on(e, k, self)))
        return true;
    return false;
  };
  for (std::int64_t d : devices_in({~over, here, e.at.axes}, halving_order(e.out.where), e.at.axes, may))
    f(d, coordinates_of(d, e.at.axes));
}

namespace detail {

/// A message by its parts: one run of memory is neither packed nor unpacked.
struct message_size {
  std::int64_t elements = 0;
  bool one_run = true;

  constexpr void append(const box_copy& c) {
    one_run = elements == 0 && c.contiguous();
    elements += c.elements;
  }
  constexpr std::int64_t packed() const { return one_run ? 0 : elements; }
};

/// Whether some source may be used several times, for any offsets.
constexpr bool may_repeat(const exchange_spec& e) {
  for (const dim_map& m : e.maps)
    if (m.outside != border::zero || m.window != no_dim || m.divisor != 1 || m.stride == 0) return true;
  return false;
}

/// Calls f(operand, filling, part) for all that a device fills.
template <class F>
constexpr void for_each_filling(const exchange_spec& e, const coordinates& at, F&& f) {
  constexpr std::int64_t none[max_arity]{};
  for (std::uint32_t part = 0; part < e.part_count(); ++part) {
    if (!e.needs_part(part)) continue;
    for (std::size_t k = 0; k < e.in.size(); ++k)
      if (e.takes_from(k))
        if (const filling one = fill_of(e, k, part, at, indexed_span<const std::int64_t>(none, max_arity)); !one.empty)
          f(k, one, part);
  }
}

/// The message from a device to another one.
constexpr message_size message_to(const exchange_spec& e, const coordinates& here, const coordinates& to) {
  message_size m;
  for_each_filling(e, to, [&](std::size_t k, const filling& f, std::uint32_t part) {
    if (!shares(e, k, to, here)) return;
    const box mine = shard_of(e, k, here);
    const shape theirs = e.filled_by(part, to).extents();
    for_each_piece(f, mine, strides_of(mine.extents()), strides_of(f.staged ? staging_extents(f, theirs) : theirs),
                   [&](const exchange_piece& p) {
                     m.append(make_copy(p.extents, p.from, 0, strides_of(p.extents), 0));
                   });
  });
  return m;
}
/// All that a device fills.
struct filled_part {
  std::size_t operand;
  std::uint32_t part;
  filling how;
};
constexpr indexed_vector<filled_part> all_filled(const exchange_spec& e, const coordinates& at) {
  indexed_vector<filled_part> all;
  for_each_filling(e, at, [&](std::size_t k, const filling& f, std::uint32_t part) { all.push_back({k, part, f}); });
  return all;
}
/// Elements of its sources that are used several times.
constexpr std::int64_t staged_elements(const exchange_spec& e, const indexed_vector<filled_part>& all,
                                       const coordinates& here) {
  std::int64_t n = 0;
  for (const filled_part& f : all)
    if (f.how.staged) n += staging_extents(f.how, e.filled_by(f.part, here).extents()).elements();
  return n;
}
/// The message to a device, which fills this, from another one.
constexpr message_size message_from(const exchange_spec& e, const indexed_vector<filled_part>& all,
                                    const coordinates& here, const coordinates& from) {
  message_size m;
  for (const filled_part& f : all) {
    if (!shares(e, f.operand, from, here)) continue;
    const strides to = f.how.staged ? strides_of(staging_extents(f.how, e.filled_by(f.part, here).extents()))
                                    : e.strides_at(f.part, here);
    for_each_piece(f.how, shard_of(e, f.operand, from), {}, to,
                   [&](const exchange_piece& p) { m.append(make_copy(p.extents, strides_of(p.extents), 0, p.to, 0)); });
  }
  return m;
}

} // namespace detail

/// The maximum over all offsets.
[[gnu::cold]] constexpr exchange_room room_for_any(const exchange_spec& e, const coordinates& here) {
  std::int64_t mine = 0, members = 0;
  for (std::size_t k = 0; k < e.in.size(); ++k)
    if (e.takes_from(k)) mine = std::max(mine, shard_of(e, k, here).elements());
  exchange_room room;
  for_each_member(e, here, [&](std::int64_t, const coordinates& at) {
    room.sent += std::min(mine, e.filled_by(0, at).elements());
    ++members;
  });
  room.received = e.filled_by(0, here).elements();
  // An update is short compared with its target.
  if (e.keeps) room.received = std::min(room.received, shape_of(e.in[0].type, e.at).elements());
  room.staged = detail::may_repeat(e) ? room.received : 0;
  // Nothing travels within a device.
  if (members == 1) room.sent = room.received = 0;
  return room;
}

/// The memory of an exchange whose messages use MPI. Through shared memory a message that is one box is not
/// packed either.
[[gnu::cold]] constexpr exchange_room room_of(const exchange_spec& e, const coordinates& here) {
  if (moves_at_run_time(e)) return room_for_any(e, here);
  exchange_room room;
  const indexed_vector<detail::filled_part> filled = detail::all_filled(e, here);
  room.staged = detail::staged_elements(e, filled, here);
  const std::int64_t own = device_of(here, e.at.axes);
  for_each_member(e, here, [&](std::int64_t device, const coordinates& at) {
    if (device == own) return;
    room.sent += detail::message_to(e, here, at).packed();
    room.received += detail::message_from(e, filled, here, at).packed();
  });
  return room;
}

namespace detail {

/// The messages of several exchanges in one direction: short ones to one device travel together.
class joined_messages {
 public:
  /// `widest`: the bytes of the largest element of all exchanges, at a multiple of which each message begins.
  constexpr explicit joined_messages(std::int64_t widest) : widest_(widest) {}
  /// Of the next exchange, whose elements are no larger than those of the ones before; empty messages are none.
  constexpr void add(std::int64_t device, const message_size& m, std::int64_t element_bytes) {
    if (m.elements == 0) return;
    all_.push_back({device, m, element_bytes, m.elements * element_bytes});
  }
  /// Bytes of the packed parts.
  constexpr std::int64_t bytes() const {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!is_short(all_[i])) continue;
      std::int64_t together = 0, count = 0;
      bool first = true;
      for (std::size_t k = 0; k < all_.size(); ++k) {
        if (all_[k].device != all_[i].device || !is_short(all_[k])) continue;
        first = first && k >= i;
        together += all_[k].bytes;
        ++count;
      }
      if (first && count > 1) total = from_multiple(total) + together;
    }
    for (const one& m : all_)
      if (!is_joined(m) && !m.size.one_run) total = from_multiple(total) + m.bytes;
    return total;
  }

 private:
  struct one {
    std::int64_t device;
    message_size size;
    std::int64_t element_bytes, bytes;
  };
  constexpr std::int64_t from_multiple(std::int64_t n) const { return (n + widest_ - 1) / widest_ * widest_; }
  static constexpr bool is_short(const one& m) { return m.bytes <= joined_message_bytes; }
  constexpr bool is_joined(const one& m) const {
    std::int64_t count = 0;
    for (const one& other : all_) count += other.device == m.device && is_short(other) ? 1 : 0;
    return is_short(m) && count > 1;
  }

  indexed_vector<one> all_{};
  std::int64_t widest_;
};

} // namespace detail

/// Bytes of memory of exchanges that share messages, by MPI.
[[gnu::cold]] constexpr std::int64_t joined_scratch(indexed_vector<exchange_spec> all, const coordinates& here) {
  const auto size = [&](std::size_t i) { return size_of(all[i].out.type.element); };
  for (std::size_t n = 1; n < all.size(); ++n)
    for (std::size_t i = n; i > 0 && size(i - 1) < size(i); --i) std::swap(all[i - 1], all[i]);
  detail::joined_messages sent(size(0)), received(size(0));
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const exchange_spec& e = all[i];
    const std::int64_t own = device_of(here, e.at.axes);
    const indexed_vector<detail::filled_part> filled = detail::all_filled(e, here);
    for_each_member(e, here, [&](std::int64_t device, const coordinates& at) {
      if (device == own) return;
      sent.add(device, detail::message_to(e, here, at), size(i));
      received.add(device, detail::message_from(e, filled, here, at), size(i));
    });
    bytes += aligned(detail::staged_elements(e, filled, here) * size(i));
  }
  return bytes + aligned(sent.bytes()) + aligned(received.bytes());
}

}}} // namespace cleave::v0::comm
