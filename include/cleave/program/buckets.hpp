// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/program_view.hpp>

// Which all-reduces of a program travel as one message, for given sizes.

namespace cleave { inline namespace v0 {

/// Whether two steps are all-reduces that one message could serve.
constexpr bool reduce_alike(const step& a, element of_a, const step& b, element of_b) {
  return a.kind == step_kind::move && b.kind == step_kind::move && a.move == kind::all_reduce &&
         b.move == kind::all_reduce && a.axes == b.axes && a.combine == b.combine && of_a == of_b &&
         a.in_flight == b.in_flight;
}
constexpr bool reduce_alike(const program_view& p, const step& a, const step& b) {
  return reduce_alike(a, p.buffers[a.out].type.element, b, p.buffers[b.out].type.element);
}

namespace comm {

/// The largest value, in bytes, that shares a message with others, and the longest message of several values. Larger
/// ones would gain nothing, and the values of one message must be in memory together.
inline constexpr std::int64_t bucketed_value_bytes = 1 << 18;
inline constexpr std::int64_t bucket_bytes = 1 << 20;

} // namespace comm

/// All-reduces of a program that travel as one message, by their numbers, and its length.
struct reduce_bucket {
  indexed_vector<std::size_t> steps{};
  std::int64_t bytes = 0;
};

/// The axes along which shards of a value differ in length.
[[gnu::cold]] constexpr axis_set uneven_axes(const buffer& value, const sizes& at) {
  axis_set axes = 0;
  for (int i = 0; i < value.type.rank; ++i)
    if (!at.along(value.type[i]).even(at.axes.product(value.where[i]))) axes = axes | value.where[i].mask();
  return axes;
}
/// Calls f(bucket) for those of a device. All devices that take part in them have the same shards, and so the same
/// buckets. MPI may add up messages of different length in another order: a value that is replicated over an axis does
/// not share a message with one whose shards differ in size along this axis.
template <class F>
[[gnu::cold]] constexpr void for_each_bucket(const program_view& p, const sizes& at, const coordinates& here, F&& f) {
  for (std::size_t first = 0; first < p.steps.size();) {
    const step& one = p.steps[first];
    std::size_t end = first + 1;
    while (end < p.steps.size() && reduce_alike(p, one, p.steps[end])) ++end;
    reduce_bucket b;
    axis_set uneven = 0, common = 0;
    const auto close = [&] {
      if (b.steps.size() > 1) f(std::as_const(b));
      b.steps.clear();
      b.bytes = 0;
      uneven = 0;
    };
    for (std::size_t i = first; i < end && end - first > 1 && at.axes.product(one.axes) > 1; ++i) {
      const buffer& value = p.buffers[p.steps[i].out];
      const std::int64_t bytes = elements_of(value, p.maps, at, here) * size_of(value.type.element);
      if (bytes > comm::bucketed_value_bytes) continue;
      const axis_set own = uneven_axes(value, at), sharded = value.where.sharded();
      const axis_set any = uneven | own, all = b.steps.empty() ? sharded : common & sharded;
      if (b.bytes + bytes > comm::bucket_bytes || (any & ~all) != 0) close();
      uneven = b.steps.empty() ? own : any;
      common = b.steps.empty() ? sharded : all;
      b.steps.push_back(i);
      b.bytes += bytes;
    }
    close();
    first = end;
  }
}

/// Whether the value that an all-reduce combines in place is stored in its bucket and has no other memory. No other
/// buffer may alias it.
[[gnu::cold]] constexpr bool lives_in_bucket(const program_view& p, const step& reduce) {
  const buffer &in = p.buffers[reduce.in[0]], &out = p.buffers[reduce.out];
  if (in.role != role::workspace || out.role != role::workspace || in.index != out.index) return false;
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].role != role::workspace || p.buffers[b].index != out.index) continue;
    bool written = false;
    for (const step& s : p.steps) {
      if (!writes(s) || s.out != b) continue;
      // If a step keeps old values, these are in the message, not in the slot.
      if (s.keeps) return false;
      written = true;
    }
    if (!written) return false;
  }
  return true;
}

}} // namespace cleave::v0
