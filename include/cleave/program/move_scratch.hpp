// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/layout/holders.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>
#include <limits>

// The memory into which a move packs and from which it unpacks, in addition to its operand and its result. The
// collectives allocate it, and plans predict it, by the same functions.

namespace cleave { inline namespace v0 { namespace comm {

/// A move of a value of these global extents from one layout to another.
struct transfer {
  cleave::element element = cleave::element::none;
  shape global{};
  layout from{};
  layout to{};
  /// The axes whose devices take part together.
  axis_set axes{};
  reduction combine = reduction::sum;
};

/// The transfer of a move of a program.
constexpr transfer transfer_of(const program_view& p, const step& s, const sizes& at) {
  const buffer &from = p.buffers[s.in[0]], &to = p.buffers[s.out];
  return {from.type.element, shape_of(from.type, at), from.where, to.where, s.axes, s.combine};
}

/// The box that a device holds before a transfer and after it.
constexpr box held_before(const transfer& t, const coordinates& at, const axis_sizes& sizes) {
  return box_of(t.global, t.from, at, sizes);
}
constexpr box held_after(const transfer& t, const coordinates& at, const axis_sizes& sizes) {
  return box_of(t.global, t.to, at, sizes);
}

namespace detail {

/// The list without the axes at its end that are in the set.
constexpr axis_list stripped(axis_list list, axis_set axes) {
  while (!list.empty() && axes.contains(list[list.size() - 1])) list.pop_back();
  return list;
}

} // namespace detail

/// Whether a move stays inside the blocks over the axes that it leaves alone, as its collective requires. This follows
/// from sizes and layouts, so it is the same on all ranks. Other moves become the general exchange.
[[gnu::cold]] constexpr bool stays_in_blocks(const transfer& t, const axis_sizes& sizes) {
  for (int i = 0; i < t.global.rank; ++i) {
    if (t.from[i] == t.to[i]) continue;
    const axis_list kept = detail::stripped(t.from[i], t.axes);
    if (detail::stripped(t.to[i], t.axes) != kept || kept.mask().meets(t.axes)) return false;
    if (!nests(t.global.along(i), kept, t.from[i], sizes) || !nests(t.global.along(i), kept, t.to[i], sizes))
      return false;
  }
  return true;
}

/// Whether all blocks of the changing dims have one size.
constexpr bool even(const transfer& t, const axis_sizes& sizes) {
  for (int i = 0; i < t.global.rank; ++i) {
    if (t.from[i] == t.to[i]) continue;
    const dim_blocks dim = t.global.along(i);
    if (!dim.even(sizes.product(t.from[i])) || !dim.even(sizes.product(t.to[i]))) return false;
  }
  return true;
}
/// The most elements that any device has before or after.
constexpr std::int64_t largest(const transfer& t, const axis_sizes& sizes) {
  const std::int64_t a = largest_shape(t.global, t.from, sizes).elements(),
                     b = largest_shape(t.global, t.to, sizes).elements();
  return a > b ? a : b;
}

/// Parts of a shard one after another, as a collective takes them: whether they are like this in the memory of the
/// shard, so that nothing is copied.
struct parts_in_order {
  std::int64_t elements = 0;
  bool direct = true;

  /// The next part, which begins at an element of the shard.
  constexpr void append(const box_copy& c, std::int64_t in_shard) {
    direct = direct && (c.elements == 0 || (c.contiguous() && in_shard == elements));
    elements += c.elements;
  }
  /// The memory in which they are packed.
  constexpr std::int64_t packed_bytes(element e) const { return direct ? 0 : aligned(elements * size_of(e)); }
};

/// The parts of a general move that one device sends and receives: each device receives only the elements that it
/// lacks, each part of a source shard from one of its owners. The replicas of a shard take turns in sending.
class permuted_parts {
 public:
  constexpr permuted_parts(const transfer& t, const axis_sizes& sizes, const coordinates& here)
      : t_(t), sizes_(sizes), here_(here), sharded_(t.from.sharded()), replicas_(sizes.product(~t.from.used())) {}

  /// Calls f(device, part) for every part that this device sends.
  template <class F>
  constexpr void for_each_sent(F&& f) const {
    const std::int64_t own = index_along(~t_.from.used(), here_, sizes_);
    const box shard = held_before(t_, here_, sizes_);
    const holders_of all = receivers(here_, shard);
    for (std::int64_t n = own; n < all.size(); n += replicas_) {
      const coordinates at = all[n];
      f(device_of(at, sizes_), intersect(shard, held_after(t_, at, sizes_)));
    }
  }
  /// Calls f(owner, part) for every part that this device receives, with one of its owners.
  template <class F>
  constexpr void for_each_needed(F&& f) const {
    const box want = held_after(t_, here_, sizes_);
    const holders_of all(want, t_.global, t_.from, {~sharded_, here_, sizes_}, sizes_);
    for (std::int64_t n = 0; n < all.size(); ++n) {
      const coordinates owner = all[n];
      if (!same_along(sharded_, owner, here_)) f(owner, intersect(want, held_before(t_, owner, sizes_)));
    }
  }
  /// Calls f(device, part) for every part that this device receives, with its sender.
  template <class F>
  [[gnu::cold]] constexpr void for_each_received(F&& f) const {
    for_each_needed([&](const coordinates& owner, const box& part) {
      const std::int64_t turn = replicas_ == 1 ? 0 : receivers(owner, held_before(t_, owner, sizes_)).before(here_);
      f(device_of(moved_along(~t_.from.used(), owner, turn % replicas_, sizes_), sizes_), part);
    });
  }

 private:
  /// The devices that lack a part of the shard that `owner` has. Partial values travel between devices with the same
  /// coordinates on the partial axes.
  constexpr holders_of receivers(const coordinates& owner, const box& shard) const {
    holders_of all(shard, t_.global, t_.to, {t_.from.unreduced(), owner, sizes_}, sizes_, sharded_);
    all.leave_out(sharded_, owner);
    return all;
  }

  transfer t_;
  axis_sizes sizes_;
  coordinates here_;
  axis_set sharded_;
  /// The devices that have the same shard.
  std::int64_t replicas_;
};

/// Elements of all blocks together that a large reduce-scatter combines in one call: few would make latency count, many
/// would make the second buffer large.
inline constexpr std::int64_t most_reduced_at_once = 1 << 24;
/// Elements of one block that are combined in one call, if a call counts up to `limit`.
constexpr std::int64_t reduced_at_once(std::int64_t blocks, std::int64_t limit) {
  return std::max<std::int64_t>(1, std::min(limit, most_reduced_at_once) / blocks);
}
/// The largest count of one MPI call.
inline constexpr std::int64_t most_counted = std::numeric_limits<int>::max();

namespace detail {

/// The parts of a shard in the order of the devices that take part, if their blocks nest; `apart` is the layout of the
/// parts. Together the parts are the shard.
constexpr parts_in_order parts_of_shard(const transfer& t, const axis_sizes& sizes, const coordinates& here,
                                        const box& shard, const layout& apart) {
  parts_in_order all;
  const coordinates first = moved_along(t.axes, here, 0, sizes);
  // The place of a part is a linear function of coordinates up to the end of each dim. So they are in order if along
  // each axis the second part begins where the parts end that differ along the axes behind it.
  device_block before({}, first, sizes);
  before.low = before.high = first;
  const auto append = [&](const coordinates& at) {
    const box_copy c = copy_to_packed(intersect(shard, box_of(t.global, apart, at, sizes)), shard, 0);
    all.append(c, c.from_offset);
  };
  append(first);
  // Not where blocks are given. Where axes change places, or shard a dim in another order than that of devices, parts
  // between others can be empty.
  bool in_steps = true;
  for (int i = 0; i < shard.rank; ++i) {
    if (t.global.given[i] != nullptr || (t.from.axes(i).meets(t.axes) && t.to.axes(i).meets(t.axes))) in_steps = false;
    for (int n = 1; n < apart[i].size(); ++n)
      in_steps = in_steps && (!t.axes.contains(apart[i][n - 1]) || apart[i][n - 1] < apart[i][n]);
  }
  if (!in_steps) {
    for (std::int64_t r = 1; r < sizes.product(t.axes) && all.direct; ++r) append(moved_along(t.axes, here, r, sizes));
    all.elements = shard.elements();
    return all;
  }
  for (int a = max_axes; a-- > 0;) {
    if (!t.axes.contains(a) || sizes[a] == 1) continue;
    all.elements = 1;
    for (int i = 0; i < shard.rank; ++i)
      all.elements *= intersect(shard[i], held_by(before, t.global.along(i), apart[i], sizes)).size();
    coordinates second = first;
    second[a] = 1;
    append(second);
    before.high[a] = static_cast<std::int32_t>(sizes[a] - 1);
  }
  all.elements = shard.elements();
  return all;
}
constexpr parts_in_order gathered_parts(const transfer& t, const axis_sizes& sizes, const coordinates& here) {
  return parts_of_shard(t, sizes, here, held_after(t, here, sizes), t.from);
}
constexpr parts_in_order scattered_parts(const transfer& t, const axis_sizes& sizes, const coordinates& here) {
  return parts_of_shard(t, sizes, here, held_before(t, here, sizes), t.to);
}
constexpr std::int64_t scratch_of_permute(const transfer& t, const axis_sizes& sizes, const coordinates& here) {
  std::int64_t sent = 0, received = 0;
  const box from = held_before(t, here, sizes), to = held_after(t, here, sizes);
  const permuted_parts all(t, sizes, here);
  all.for_each_sent([&](std::int64_t, const box& part) {
    if (const box_copy c = copy_to_packed(part, from, 0); !c.contiguous()) sent += c.elements;
  });
  all.for_each_needed([&](const coordinates&, const box& part) {
    if (const box_copy c = copy_from_packed(part, to, 0); !c.contiguous()) received += c.elements;
  });
  return aligned(sent * size_of(t.element)) + aligned(received * size_of(t.element));
}
constexpr std::int64_t scratch_of_reduce_scatter(const transfer& t, const axis_sizes& sizes, const coordinates& here) {
  if (!stays_in_blocks(t, sizes)) {
    // All is reduced first, and then fetched.
    transfer fetch = t;
    fetch.from.set_partial(t.to.unreduced(), t.from.combine());
    return aligned(held_before(t, here, sizes).elements() * size_of(t.element)) +
           scratch_of_permute(fetch, sizes, here);
  }
  const parts_in_order all = scattered_parts(t, sizes, here);
  const std::int64_t n = sizes.product(t.axes);
  const std::int64_t chunks = all.elements > most_counted ? reduced_at_once(n, most_counted) * n : 0;
  return all.packed_bytes(t.element) + aligned(chunks * size_of(t.element));
}

} // namespace detail

/// Bytes of memory that a device packs and unpacks in if a move of a plan uses MPI. Through shared memory nothing is
/// packed.
constexpr std::int64_t scratch_of(kind move, const transfer& t, const axis_sizes& sizes, const coordinates& here) {
  const bool alone = sizes.product(t.axes) == 1;
  switch (move) {
    case kind::reduce_scatter: return alone ? 0 : detail::scratch_of_reduce_scatter(t, sizes, here);
    case kind::collective_permute: return detail::scratch_of_permute(t, sizes, here);
    case kind::slice: return stays_in_blocks(t, sizes) ? 0 : detail::scratch_of_permute(t, sizes, here);
    case kind::all_gather:
      if (!stays_in_blocks(t, sizes)) return detail::scratch_of_permute(t, sizes, here);
      return alone ? 0 : detail::gathered_parts(t, sizes, here).packed_bytes(t.element);
    case kind::all_to_all:
      if (!stays_in_blocks(t, sizes)) return detail::scratch_of_permute(t, sizes, here);
      return alone ? 0
                   : detail::scattered_parts(t, sizes, here).packed_bytes(t.element) +
                         detail::gathered_parts(t, sizes, here).packed_bytes(t.element);
    default: return 0;
  }
}

/// Whether a move of a plan can overlap with computation. One that becomes several collectives cannot.
constexpr bool may_go_on(kind move, const transfer& t, const axis_sizes& sizes) {
  return sizes.product(t.axes) > 1 && (move != kind::reduce_scatter || stays_in_blocks(t, sizes));
}
/// An all-reduce in flight divides its operand into one block for each device. The start of the r-th one.
constexpr std::int64_t block_begin(std::int64_t r, std::int64_t elements, std::int64_t devices) {
  const std::int64_t widest = (elements + devices - 1) / devices;
  return std::min(r * widest, elements);
}
/// Bytes that a device holds while an all-reduce of this many elements is in flight: its block of all other devices.
constexpr std::int64_t held_by_all_reduce(std::int64_t elements, std::int64_t devices, element e) {
  return devices < 2 ? 0 : aligned((devices - 1) * block_begin(1, elements, devices) * size_of(e));
}
/// Bytes that a device holds while a move is in flight by MPI.
constexpr std::int64_t held_in_flight(kind move, const transfer& t, const axis_sizes& sizes, const coordinates& here) {
  const std::int64_t n = sizes.product(t.axes), packed = scratch_of(move, t, sizes, here);
  if (move == kind::all_reduce) return held_by_all_reduce(held_before(t, here, sizes).elements(), n, t.element);
  if (move != kind::reduce_scatter) return packed;
  return detail::scattered_parts(t, sizes, here).packed_bytes(t.element) +
         aligned((n - 1) * held_after(t, here, sizes).elements() * size_of(t.element));
}

}}} // namespace cleave::v0::comm
