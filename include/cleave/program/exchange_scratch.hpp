// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
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
/// Calls f(device, coordinates) for the devices with which this one may exchange anything, itself among them.
template <class F>
constexpr void for_each_member(const exchange_spec& e, const coordinates& here, F&& f) {
  axis_set over;
  for (std::size_t k = 0; k < e.in.size(); ++k)
    if (e.takes_from(k)) over |= e.fetched(k);
  for (std::int64_t d = 0; d < e.at.axes.devices(); ++d)
    if (const coordinates at = coordinates_of(d, e.at.axes); same_along(~over, at, here)) f(d, at);
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
/// The message to a device from another one.
constexpr message_size message_from(const exchange_spec& e, const coordinates& here, const coordinates& from) {
  message_size m;
  for_each_filling(e, here, [&](std::size_t k, const filling& f, std::uint32_t part) {
    if (!shares(e, k, from, here)) return;
    const strides to = f.staged ? strides_of(staging_extents(f, e.filled_by(part, here).extents()))
                                : e.strides_at(part, here);
    for_each_piece(f, shard_of(e, k, from), {}, to,
                   [&](const exchange_piece& p) { m.append(make_copy(p.extents, strides_of(p.extents), 0, p.to, 0)); });
  });
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
  detail::for_each_filling(e, here, [&](std::size_t, const filling& f, std::uint32_t part) {
    if (f.staged) room.staged += staging_extents(f, e.filled_by(part, here).extents()).elements();
  });
  const std::int64_t own = device_of(here, e.at.axes);
  for_each_member(e, here, [&](std::int64_t device, const coordinates& at) {
    if (device == own) return;
    room.sent += detail::message_to(e, here, at).packed();
    room.received += detail::message_from(e, here, at).packed();
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
    std::int64_t staged = 0;
    detail::for_each_filling(e, here, [&](std::size_t, const filling& f, std::uint32_t part) {
      if (f.staged) staged += staging_extents(f, e.filled_by(part, here).extents()).elements();
    });
    for_each_member(e, here, [&](std::int64_t device, const coordinates& at) {
      if (device == own) return;
      sent.add(device, detail::message_to(e, here, at), size(i));
      received.add(device, detail::message_from(e, here, at), size(i));
    });
    bytes += aligned(staged * size(i));
  }
  return bytes + aligned(sent.bytes()) + aligned(received.bytes());
}

}}} // namespace cleave::v0::comm
