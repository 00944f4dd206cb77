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
/// The strides of the shard that a device has of an operand.
constexpr strides strides_of_operand(const exchange_spec& e, std::size_t operand, const coordinates& here) {
  return e.in_strides.empty() ? strides_of(shard_of(e, operand, here).extents()) : e.in_strides[operand];
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

/// The offsets that only the run knows, by operand, where there are none.
inline constexpr fixed_array<std::int64_t, max_arity> no_offsets{};

/// Calls f(operand, filling, part) for all that a device fills.
template <class F>
constexpr void for_each_filling(const exchange_spec& e, const coordinates& at,
                                const fixed_array<std::int64_t, max_arity>& offsets, F&& f) {
  for (std::uint32_t part = 0; part < e.part_count(); ++part) {
    if (!e.needs_part(part)) continue;
    for (std::size_t k = 0; k < e.in.size(); ++k)
      if (e.takes_from(k))
        if (const filling one = fill_of(e, k, part, at, {offsets.begin(), offsets.end()}); !one.empty) f(k, one, part);
  }
}
/// Calls f(operand, piece) for all that a device sends to another one, which fills it.
template <class F>
constexpr void for_each_sent(const exchange_spec& e, const coordinates& here, const coordinates& to,
                             const fixed_array<std::int64_t, max_arity>& offsets, F&& f) {
  for_each_filling(e, to, offsets, [&](std::size_t k, const filling& one, std::uint32_t part) {
    if (!shares(e, k, to, here)) return;
    const shape theirs = e.filled_by(part, to).extents();
    for_each_piece(one, shard_of(e, k, here), strides_of_operand(e, k, here),
                   strides_of(one.staged ? staging_extents(one, theirs) : theirs),
                   [&](const exchange_piece& p) { f(k, p); });
  });
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

/// The message from a device to another one.
constexpr message_size message_to(const exchange_spec& e, const coordinates& here, const coordinates& to) {
  message_size m;
  for_each_sent(e, here, to, no_offsets, [&](std::size_t, const exchange_piece& p) {
    m.append(make_copy(p.extents, p.from, 0, strides_of(p.extents), 0));
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
  for_each_filling(e, at, no_offsets,
                   [&](std::size_t k, const filling& f, std::uint32_t part) { all.push_back({k, part, f}); });
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

/// The messages of several exchanges in one direction: short ones to one device travel together.
struct joined_messages {
  /// A message of one exchange: whether it has packed memory if it travels alone.
  struct one {
    std::int64_t device, bytes;
    bool packed;
    bool joined = false;
    std::int64_t offset = 0;
  };
  /// A message that is made of several.
  struct joined {
    std::int64_t device, offset, bytes;
  };
  indexed_vector<one> all{};
  indexed_vector<joined> together{};

  /// Of the next exchange, whose elements are no larger than those of the ones before; empty messages are none.
  constexpr void add(std::int64_t device, std::int64_t bytes, bool packed) {
    if (bytes != 0) all.push_back({device, bytes, packed});
  }
  /// Decides which ones travel together, and where they are packed; returns the bytes of all. Both sides of a message
  /// know its length, and so decide the same: for each pair of devices first the joined messages, then the others in
  /// their order. `widest`: the bytes of the largest element of all exchanges, at a multiple of which each message
  /// begins.
  constexpr std::int64_t lay_out(std::int64_t widest) {
    std::int64_t total = 0;
    const auto from_multiple = [&] { return (total + widest - 1) / widest * widest; };
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto travels_with = [&](const one& m) {
        return m.device == all[i].device && m.bytes <= joined_message_bytes && !m.joined;
      };
      // A joined message with one part stays a single message.
      if (!travels_with(all[i]) || std::count_if(all.begin(), all.end(), travels_with) == 1) continue;
      const std::int64_t begin = total = from_multiple();
      for (one& m : all)
        if (travels_with(m)) m.offset = total, total += m.bytes, m.joined = true;
      together.push_back({all[i].device, begin, total - begin});
    }
    for (one& m : all)
      if (!m.joined && m.packed) m.offset = total = from_multiple(), total += m.bytes;
    return total;
  }
};

/// Bytes of memory of exchanges that share messages, by MPI.
[[gnu::cold]] constexpr std::int64_t joined_scratch(indexed_vector<exchange_spec> all, const coordinates& here) {
  const auto size = [&](std::size_t i) { return size_of(all[i].out.type.element); };
  for (std::size_t n = 1; n < all.size(); ++n)
    for (std::size_t i = n; i > 0 && size(i - 1) < size(i); --i) std::swap(all[i - 1], all[i]);
  joined_messages sent, received;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const exchange_spec& e = all[i];
    const std::int64_t own = device_of(here, e.at.axes);
    const indexed_vector<detail::filled_part> filled = detail::all_filled(e, here);
    for_each_member(e, here, [&](std::int64_t device, const coordinates& at) {
      if (device == own) return;
      const detail::message_size to = detail::message_to(e, here, at), from = detail::message_from(e, filled, here, at);
      sent.add(device, to.elements * size(i), !to.one_run);
      received.add(device, from.elements * size(i), !from.one_run);
    });
    bytes += aligned(detail::staged_elements(e, filled, here) * size(i));
  }
  return bytes + aligned(sent.lay_out(size(0))) + aligned(received.lay_out(size(0)));
}

}}} // namespace cleave::v0::comm
