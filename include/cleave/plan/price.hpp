// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/cost/region.hpp>
#include <cleave/plan/workspace.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/rules/all.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 {

/// A step with the layouts of the buffers that it reads and writes.
constexpr placed_op placed(const program_view& p, const step& s) {
  placed_op o;
  for (std::uint16_t b : s.in) o.in[o.arity++] = {&p.buffers[b].type, p.buffers[b].where};
  o.out = {&p.buffers[s.out].type, p.buffers[s.out].where};
  o.maps = p.maps.subspan(s.first_map, s.maps);
  o.along = dim_along(s);
  o.over = s.axes;
  o.code = s.what;
  o.user = s.user;
  return o;
}
/// The region that an exchange fetches.
constexpr region_shape region_of(const program_view& p, const step& s) {
  const buffer& to = p.buffers[s.out];
  region_shape r{to.type, p.buffers[s.in[0]].where, to.where, {}, to.parts};
  for (int m = 0; m < to.maps; ++m) r.maps.push_back(p.maps[as_size(to.first_map + m)]);
  return r;
}

/// The cost of the bytes that one step moves. Exact for any sizes: bytes of the busiest device.
constexpr cost step_cost(const program_view& p, const step& s, const sizes& at) {
  if (s.kind == step_kind::move) {
    const buffer &from = p.buffers[s.in[0]], &to = p.buffers[s.out];
    return price_of({s.move, s.axes, to.where}, from.where, shape_of(from.type, at), size_of(from.type.element),
                    at.axes);
  }
  if (s.kind == step_kind::exchange && has_neighbours(p.buffers[s.out])) return region_cost(region_of(p, s), at);
  const auto& moves = pricing_of(s.kind).moves;
  return !moves.given ? cost{} : moves.call(placed(p, s), at);
}

constexpr std::int64_t step_bytes(const program_view& p, const step& s, const sizes& at) {
  return step_cost(p, s, at).bytes;
}

/// How often a step runs; if values decide, the assumed number.
constexpr std::int64_t step_iterations(const program_view& p, const step& s, const sizes& at) {
  return iterations_of(p.loops, s.in_loop, at);
}

/// Bytes that a program moves: the sum over its steps of the bytes of each step's busiest device, times the iterations
/// of its loops. Of assumed sizes these sums may be more than a number holds: then the largest one.
constexpr std::int64_t bytes(const program_view& p, const sizes& at) {
  std::int64_t total = 0;
  for (const step& s : p.steps) total = plus_times(total, step_iterations(p, s, at), step_bytes(p, s, at));
  return total;
}

/// Exchanges that share messages have as many as the one of them that has most; along other axes are other devices. If
/// two of them have some axes in common and others not, this is the least number.
constexpr std::int64_t messages(const program_view& p, const sizes& at) {
  std::int64_t total = 0, most = 0;
  axis_set over{};
  for (const step& s : p.steps) {
    const std::int64_t own = step_cost(p, s, at).messages, shared = s.joined ? most : 0;
    if (!s.joined) over = {};
    most = (s.axes & over) == 0 ? shared + own : own > shared ? own : shared;
    over |= s.axes;
    total = plus_times(total, step_iterations(p, s, at), most - shared);
  }
  return total;
}

/// Floating-point operations of the products on the busiest device.
constexpr std::int64_t flops(const program_view& p, const sizes& at) {
  std::int64_t total = 0;
  for (const step& s : p.steps)
    if (const auto& most_flops = pricing_of(s.kind).most_flops; most_flops.given)
      total = plus_times(total, step_iterations(p, s, at), most_flops.call(placed(p, s), at));
  return total;
}

/// The arrays that a step reads, each once: of a region's view the region, of a halo's view the halo and its shard.
constexpr indexed_vector<std::uint16_t> arrays_read(const program_view& p, const step& s) {
  indexed_vector<std::uint16_t> arrays;
  const auto add = [&](std::uint16_t array) {
    if (std::find(arrays.begin(), arrays.end(), array) == arrays.end()) arrays.push_back(array);
  };
  for (std::uint16_t in : s.in) {
    const buffer& b = p.buffers[in];
    if (is_around_shard(p, b)) add(p.buffers[b.of].of);
    add(b.form == form::view ? b.of : in);
  }
  return arrays;
}

/// The bytes of one step on the busiest device. Of a pass with several results, its first step reads the operands, and
/// each one writes its own result.
struct pass_bytes {
  std::int64_t read = 0, written = 0, moved = 0;
};
constexpr pass_bytes bytes_of_pass(const program_view& p, const step& s, const sizes& at) {
  const auto bytes_of = [&](const buffer& b) { return largest_elements(b, p.maps, at) * size_of(b.type.element); };
  const buffer& to = p.buffers[s.out];
  // An update writes the block that it has.
  pass_bytes all{0, bytes_of(s.keeps ? p.buffers[s.in[0]] : to), step_bytes(p, s, at)};
  if (is_in_pass(s)) return all;
  // A step that fills a halo reads as much as it writes.
  if (has_neighbours(to)) {
    all.read = all.written;
    return all;
  }
  // An operand that is gathered panel by panel has no memory: the product reads its source.
  if (s.kind == step_kind::move && is_in_panels(p, s, at)) return {0, 0, all.moved};
  const bool takes = s.kind == step_kind::exchange || s.kind == step_kind::gather;
  const bool in_panels = is_in_panels(p, s, at);
  const product_panels panels = in_panels ? panels_of(p, s, at, coordinates{}) : product_panels{};
  for (std::uint16_t array : arrays_read(p, s)) {
    if ((panels.gathers(0) && array == s.in[0]) || (panels.gathers(1) && array == s.in[1])) continue;
    const std::int64_t whole = bytes_of(p.buffers[array]);
    // It reads an element of its operand for each one that it writes.
    all.read += takes && array == s.in[0] ? std::min(whole, all.written) : whole;
  }
  return all;
}

}} // namespace cleave::v0
