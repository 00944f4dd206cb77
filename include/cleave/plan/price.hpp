// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/exchange.hpp>
#include <cleave/cost/reshard.hpp>
#include <cleave/ops/user.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/rules/all.hpp>

namespace cleave {

/// What an exchange is, from the buffers that it reads and writes.
constexpr static_vector<exchange_part, max_operands> parts_of(const program& p, const step& s) {
  static_vector<exchange_part, max_operands> parts;
  const auto maps = std::span(p.maps).subspan(s.first_map, s.maps);
  const buffer& to = p.buffers[s.out];
  for (std::size_t k = 0; k < s.in.size(); ++k)
    parts.push_back(part_of(maps, static_cast<std::uint8_t>(k), p.buffers[s.in[k]].type, p.buffers[s.in[k]].where, to.type, to.where));
  return parts;
}
constexpr region_shape region_of(const program& p, const step& s) {
  const buffer& to = p.buffers[s.out];
  region_shape r{to.type, p.buffers[s.in[0]].where, to.where, {}, s.region_parts};
  for (int m = 0; m < to.maps; ++m) r.maps.push_back(p.maps[static_cast<std::size_t>(to.first_map + m)]);
  return r;
}
constexpr cost exchange_step_cost(const program& p, const step& s, const sizes& at) {
  if (p.buffers[s.out].form == form::region) return region_cost(region_of(p, s), at);
  const auto parts = parts_of(p, s);
  return exchange_cost(std::span<const exchange_part>(parts.begin(), parts.end()), at);
}

/// What one step moves. Exact for any sizes: bytes of the busiest device.
constexpr cost step_cost(const program& p, const step& s, const sizes& at) {
  const std::vector<buffer>& buffers = p.buffers;
  if (s.kind == step_kind::call && s.user->bytes != nullptr) {
    static_vector<shape, max_operands + 1> shards;
    for (std::uint16_t b : s.in) shards.push_back(largest_shape(shape_of(buffers[b].type, at), buffers[b].where, at.axes));
    shards.push_back(largest_shape(shape_of(buffers[s.out].type, at), buffers[s.out].where, at.axes));
    return {s.user->bytes(std::span<const shape>(shards.begin(), shards.end()), at.axes), 0};
  }
  if (s.kind == step_kind::gather) {
    if (s.axes == 0) return {};
    const buffer &table = buffers[s.in[0]], &places = buffers[s.in[1]], &out = buffers[s.out];
    return rules::gather_cost(places.type, places.where, table.where[table.type.find(s.k[0])], out.type, out.where, at);
  }
  if (s.kind == step_kind::scatter) {
    const buffer &rows = buffers[s.in[0]], &places = buffers[s.in[1]], &out = buffers[s.out];
    return rules::scatter_cost(rows.type, rows.where, places.type, places.where, s.axes, out.where[out.type.find(s.k[0])], at);
  }
  if (s.kind == step_kind::scan) return rules::scan_cost(buffers[s.out].type, buffers[s.out].where, buffers[s.out].type.find(s.k[0]), at);
  if (s.kind == step_kind::sort) {
    const buffer &in = buffers[s.in[0]];
    return rules::sort_cost(in.type, in.where, in.type.find(s.k[0]), s.indices, at);
  }
  if (s.kind == step_kind::exchange) return exchange_step_cost(p, s, at);
  if (s.kind != step_kind::move) return {};
  const buffer &from = buffers[s.in[0]], &to = buffers[s.out];
  return price_of({s.move, s.axes, to.where}, from.where, shape_of(from.type, at), size_of(from.type.element), at.axes);
}

constexpr std::int64_t step_bytes(const program& p, const step& s, const sizes& at) {
  return step_cost(p, s, at).bytes;
}

/// How often a step runs; where values decide, as often as is assumed.
constexpr std::int64_t step_trips(const program& p, const step& s, const sizes& at) { return trips_of(p.loops, s.in_loop, at); }

/// Bytes that a program moves: the sum over its steps of the bytes of each step's busiest device, times the trips of its loops.
constexpr std::int64_t bytes(const program& p, const sizes& at) {
  std::int64_t total = 0;
  for (const step& s : p.steps) total += step_trips(p, s, at) * step_bytes(p, s, at);
  return total;
}

constexpr std::int64_t messages(const program& p, const sizes& at) {
  std::int64_t total = 0;
  for (const step& s : p.steps) total += step_trips(p, s, at) * step_cost(p, s, at).messages;
  return total;
}

/// Floating-point operations of the products on the busiest device.
constexpr std::int64_t flops(const program& p, const sizes& at) {
  std::int64_t total = 0;
  for (const step& s : p.steps) {
    if (s.kind != step_kind::gemm) continue;
    const buffer &a = p.buffers[s.in[0]], &c = p.buffers[s.out];
    std::int64_t work = 2 * largest_shape(shape_of(c.type, at), c.where, at.axes).elements();
    for (int i = 0; i < s.k.rank; ++i)
      work *= block_extent(at[s.k[i]], at.axes.product(a.where[a.type.find(s.k[i])]));
    total += step_trips(p, s, at) * work;
  }
  return total;
}

/// Bytes of workspace on the busiest device: each slot is as large as its largest buffer.
constexpr std::int64_t workspace(const program& p, const sizes& at) {
  std::int64_t total = 0;
  for (std::uint16_t slot = 0; slot < p.slots; ++slot) {
    std::int64_t largest = 0;
    for (const buffer& b : p.buffers) {
      if (b.role != role::workspace || b.index != slot) continue;
      if (b.form == form::view || b.form == form::slice) continue;
      const std::int64_t n = largest_elements(b, p.maps, at) * size_of(b.type.element);
      if (n > largest) largest = n;
    }
    total += largest;
  }
  return total;
}

} // namespace cleave
