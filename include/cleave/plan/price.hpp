// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/cost/region.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/rules/all.hpp>

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

/// Exchanges that share messages have as many as the one of them that has most.
constexpr std::int64_t messages(const program_view& p, const sizes& at) {
  std::int64_t total = 0, most = 0;
  for (const step& s : p.steps) {
    const std::int64_t own = step_cost(p, s, at).messages, shared = s.joined ? most : 0;
    most = own > shared ? own : shared;
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

}} // namespace cleave::v0
