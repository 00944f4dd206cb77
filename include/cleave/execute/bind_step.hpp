// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/exchange_spec.hpp>
#include <cleave/comm/joined_reduce.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/distributed/row_routes.hpp>
#include <cleave/distributed/scan.hpp>
#include <cleave/execute/local.hpp>
#include <cleave/execute/strides.hpp>
#include <cleave/kernels/fold.hpp>
#include <cleave/kernels/gemm.hpp>
#include <cleave/kernels/map.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/plan/lower/combine_all_reduces.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

// What is computed once, when a plan meets sizes: extents, strides, lists of messages. Nothing here is a template.

namespace cleave {

/// A step with everything that depends on sizes and on the device.
struct bound_step {
  /// Names the step in profiles.
  std::string name{};
  bound_loops loops{};
  bound_gemm gemm{};
  std::unique_ptr<comm::bound_move> move{};
  std::unique_ptr<comm::bound_exchange> exchange{};
  bound_scan scan{};
  std::unique_ptr<comm::data_routed> routed{};
  /// What a user's kernel sees: the operands, then the result.
  std::vector<shard> shards{};
  /// This all-reduce and others that follow, in one message. They are `joined` to it and do nothing themselves.
  std::unique_ptr<comm::joined_reduce> joins{};
  bool joined = false;
  /// The memory of that message, and where it is in the workspace.
  char* message = nullptr;
  std::int64_t message_at = 0;
  /// Scratch memory, shared by all steps.
  comm::scratch_bytes scratch{};
  /// An exchange in flight: memory of its own.
  comm::scratch_bytes own_scratch{};
  std::int64_t own_at = 0, own_host_at = 0;
  /// A loop: its trips where they are known, and what is read or written at the index of each.
  std::int64_t trips = 0;
  bool backwards = false;
  struct slice {
    std::size_t buffer;
    std::size_t stack;
    std::int64_t bytes;
  };
  std::vector<slice> slices{};
};

namespace detail {

struct binder {
  grid_state& grid;
  std::span<const buffer> buffers;
  std::span<const dim_map> maps;
  std::span<const dim_info> dims;
  const sizes& at;
  comm::exchange_maker make_exchange;
  const loop_list& loops;

  /// Extents of this device's shard of a buffer.
  shape local(const buffer& b) const { return indices_of(b, maps, at, grid.here()).extents(); }
  addressing addresses(const buffer& b) const { return addressing_of(b, buffers, maps, at, grid.here()); }
  /// The stride of a buffer along a dim, 0 where it does not have it.
  std::int64_t stride(const buffer& b, dim_id d) const {
    const int position = b.type.find(d);
    return position < 0 ? 0 : addresses(b).stride[static_cast<std::size_t>(position)];
  }
  range held_along(const tensor_type& loop, const layout& space, int i) const {
    return held(at[loop[i]], space[i], grid.here(), grid.sizes());
  }
  /// A plan whose operands do not fit its loops would read wrong memory.
  void verify(const step& s, const tensor_type& loop, const layout& space, std::uint16_t b) const {
    const shape extents = local(buffers[b]);
    for (int i = 0; i < loop.rank; ++i) {
      const int position = buffers[b].type.find(loop[i]);
      if (position >= 0 && extents[position] != held_along(loop, space, i).size())
        throw shape_error(wording::plan_inconsistent(name_of(s.code), dims[loop[i]].name, held_along(loop, space, i).size(),
                                                     extents[position]));
    }
  }

  /// Loop dims with the strides of loads, indices and result.
  loop_nest::dim loop_dim(const step& s, int i) const {
    loop_nest::dim d;
    d.extent = held_along(s.loop, s.space, i).size();
    for (std::uint16_t b : s.in) d.stride.push_back(stride(buffers[b], s.loop[i]));
    for (const tape_op& t : s.tape)
      if (t.code == op::iota) d.stride.push_back(t.arg == i ? 1 : 0);
    d.stride.push_back(stride(buffers[s.out], s.loop[i]));
    return d;
  }

  void bind_loops(const step& s, bound_step& b) const {
    for (std::uint16_t in : s.in) verify(s, s.loop, s.space, in);
    verify(s, s.loop, s.space, s.out);
    const inner_dim inner = inner_dim_of(s, buffers, maps);
    bound_loops& l = b.loops;
    const int kept = s.loop.rank - s.folded;
    for (int i = 0; i < s.loop.rank; ++i)
      if (i != inner.position) (i < kept ? l.outer : l.folded).dims.push_back(loop_dim(s, i));
    loop_nest::dim last;
    if (inner.position >= 0) last = loop_dim(s, inner.position);
    else last.stride = std::vector<std::int64_t>(s.in.size() + indices(s) + 1, 0);
    const bool folded = s.kind == step_kind::fold && (inner.folded || inner.position < 0);
    (folded ? l.folded : l.outer).dims.push_back(last);
    l.outer.collapse();
    l.folded.collapse();
    if (s.kind == step_kind::map) find_tile(s, l);
    l.inner = (folded ? l.folded : l.outer).dims.back();
    if (s.kind == step_kind::fold) {
      if (!folded) l.outer.dims.pop_back();
      cut_fold(l, folded);
      b.scratch.memory = fold_scratch(l, size_of(accumulator_of(buffers[s.out].type.element)));
    }
    for (const tape_op& t : s.tape) {
      if (t.code == op::iota) l.index_base.push_back(held_along(s.loop, s.space, t.arg).begin);
      if (t.code == op::constant) l.literals.push_back(rounded_to(t.type, t.scalar));
      if (t.code == op::count) {
        double product = 1;
        for (dim_id d = 0; d < max_dims; ++d)
          if ((t.over & dim_bit(d)) != 0) product *= static_cast<double>(at[d]);
        l.literals.push_back(product);
      }
    }
  }
  /// Puts the dim along which a transposed operand is contiguous beside the inner one.
  static void find_tile(const step& s, bound_loops& l) {
    auto& dims = l.outer.dims;
    for (std::size_t k = 0; k < s.in.size(); ++k) {
      if (dims.back().stride[k] < 2 || dims.back().extent < 2) continue;
      for (std::size_t d = 0; d + 1 < dims.size(); ++d)
        if (dims[d].stride[k] == 1) {
          std::rotate(dims.begin() + static_cast<std::ptrdiff_t>(d), dims.begin() + static_cast<std::ptrdiff_t>(d) + 1, dims.end() - 1);
          l.tiled = true;
          return;
        }
    }
  }
  static std::size_t indices(const step& s) {
    std::size_t n = 0;
    for (const tape_op& t : s.tape) n += t.code == op::iota ? 1 : 0;
    return n;
  }

  void bind_product(const step& s, bound_step& b) const {
    const buffer &left = buffers[s.in[0]], &right = buffers[s.in[1]], &out = buffers[s.out];
    const auto extent_in = [&](const buffer& x, dim_id d) {
      const int position = x.type.find(d);
      return position < 0 ? std::int64_t{-1} : local(x)[position];
    };
    const auto group_of = [&](const tensor_type& list) {
      gemm_group g;
      for (int i = 0; i < list.rank; ++i) {
        const std::int64_t e[3] = {extent_in(left, list[i]), extent_in(right, list[i]), extent_in(out, list[i])};
        std::int64_t extent = -1;
        for (std::int64_t x : e) {
          if (x < 0) continue;
          if (extent >= 0 && x != extent)
            throw shape_error(wording::plan_inconsistent(name_of(s.code), dims[list[i]].name, extent, x));
          extent = x;
        }
        g.append(extent, stride(left, list[i]), stride(right, list[i]), stride(out, list[i]));
      }
      return g;
    };
    const element stored = out.type.element, computed = accumulator_of(stored);
    b.gemm = bind_gemm(group_of(s.batch), group_of(s.m), group_of(s.n), group_of(s.k), size_of(computed));
    b.scratch.memory = b.gemm.scratch;
    if (computed != stored)
      for (int x = 0; x < 3; ++x) b.scratch.memory += b.gemm.widened(x);
  }

  void bind_exchange(const step& s, bound_step& b) const {
    comm::exchange_spec e;
    for (std::uint16_t in : s.in) e.in.push_back(buffers[in]);
    e.out = buffers[s.out];
    for (const dim_map& m : maps.subspan(s.first_map, s.maps)) e.maps.push_back(m);
    if (e.is_region())
      for (const dim_map& m : maps.subspan(e.out.first_map, e.out.maps)) e.region.push_back(m);
    e.out.first_map = 0;
    e.parts = s.region_parts;
    e.at = at;
    b.exchange = make_exchange(grid, std::move(e));
    // While it is in flight others use the common scratch memory.
    (s.in_flight ? b.own_scratch : b.scratch) = b.exchange->needs();
  }

  void bind_scan(const step& s, bound_step& b) const {
    const buffer& out = buffers[s.out];
    const shape extents = local(out);
    const int along = out.type.find(s.k[0]);
    b.scan.outer = b.scan.inner = 1;
    for (int i = 0; i < extents.rank; ++i)
      if (i != along) (i < along ? b.scan.outer : b.scan.inner) *= extents[i];
    b.scan.length = extents[along];
    b.scan.backwards = s.backwards;
    b.scan.exclusive = s.exclusive;
    b.scan.stored = out.type.element;
    b.scan.over = std::make_unique<comm::prefix_scan>(grid, out.where[along], s.backwards, s.combine, out.type.element, b.scan.slices());
    b.scratch = b.scan.needs();
  }

  void bind_move(const step& s, bound_step& b) const {
    const buffer &in = buffers[s.in[0]], &out = buffers[s.out];
    const comm::transfer t{in.type.element, shape_of(in.type, at), in.where, out.where, s.axes, s.combine};
    b.move = std::make_unique<comm::bound_move>(grid, s.move, t);
    b.scratch = b.move->needs();
  }

  /// Joins small all-reduces that stand one after the other. All devices that take part in them have the same shards, and so
  /// join the same.
  void join_reduces(std::span<const step> steps, std::vector<bound_step>& bound) const {
    for (std::size_t first = 0; first < steps.size();) {
      std::size_t end = first + 1;
      while (end < steps.size() && reduce_alike(steps[first], buffers[steps[first].out].type.element, steps[end],
                                                buffers[steps[end].out].type.element))
        ++end;
      if (end - first > 1 && grid.sizes().product(steps[first].axes) > 1) join_within(steps, bound, first, end);
      first = end;
    }
  }
  void join_within(std::span<const step> steps, std::vector<bound_step>& bound, std::size_t first, std::size_t end) const {
    std::vector<std::size_t> members;
    std::vector<comm::joined_reduce::part> parts;
    std::int64_t length = 0;
    const auto close = [&] {
      if (members.size() > 1) {
        const step& s = steps[members[0]];
        const buffer& in = buffers[s.in[0]];
        const comm::transfer like{in.type.element, shape_of(in.type, at), in.where, buffers[s.out].where, s.axes, s.combine};
        bound_step& head = bound[members[0]];
        head.joins = std::make_unique<comm::joined_reduce>(grid, like, parts, length);
        head.scratch = head.joins->needs();
        for (std::size_t m = 1; m < members.size(); ++m) bound[members[m]].joined = true;
      }
      members.clear();
      parts.clear();
      length = 0;
    };
    for (std::size_t i = first; i < end; ++i) {
      const buffer& out = buffers[steps[i].out];
      const std::int64_t bytes = local(out).elements() * size_of(out.type.element);
      if (bytes > comm::joined_part) continue;
      if (length + bytes > comm::joined_total) close();
      members.push_back(i);
      parts.push_back({steps[i].in[0], steps[i].out, length, bytes, may_live_elsewhere(steps, steps[i])});
      length += bytes;
    }
    close();
  }
  /// Whether what an all-reduce combines in place may be given memory of its own: nothing else is a name for it.
  bool may_live_elsewhere(std::span<const step> steps, const step& reduce) const {
    const buffer &in = buffers[reduce.in[0]], &out = buffers[reduce.out];
    if (in.role != role::workspace || out.role != role::workspace || in.index != out.index) return false;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].role != role::workspace || buffers[b].index != out.index) continue;
      const bool written = std::any_of(steps.begin(), steps.end(), [&](const step& s) { return s.out == b; });
      if (!written) return false;
    }
    return true;
  }

  shard shard_of(const buffer& b) const {
    shard s{b.type.element, shape_of(b.type, at), local(b), {}, nullptr, named_dims(b.type, dims)};
    s.offset.rank = b.type.rank;
    for (int i = 0; i < b.type.rank; ++i) s.offset[i] = held_along(b.type, b.where, i).begin;
    return s;
  }

  void bind_trips(const step& s, bound_step& b) const {
    const loop_info& l = loops[s.in_loop - 1u];
    b.trips = l.along != no_dim ? at[l.along] : l.trips;
    b.backwards = l.backwards;
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].form == form::slice && buffers[i].loop == s.in_loop) b.slices.push_back({i, buffers[i].of, local(buffers[i]).elements() * size_of(buffers[i].type.element)});
  }

  bound_step bind(const step& s) const {
    bound_step b;
    b.name = s.move != kind::none ? std::string(name_of(s.move)) + " for " + std::string(name_of(s.code)) + " line " +
                                             std::to_string(s.where.line)
                                       : std::string(name_of(s.code));
    switch (s.kind) {
      case step_kind::map:
      case step_kind::fold: bind_loops(s, b); break;
      case step_kind::gemm: bind_product(s, b); break;
      case step_kind::move: bind_move(s, b); break;
      case step_kind::exchange: bind_exchange(s, b); break;
      case step_kind::scan: bind_scan(s, b); break;
      case step_kind::gather:
      case step_kind::scatter:
      case step_kind::sort:
      case step_kind::wait:
      case step_kind::loop_end: break;
      case step_kind::loop_begin: bind_trips(s, b); break;
      case step_kind::call:
        for (std::uint16_t in : s.in) b.shards.push_back(shard_of(buffers[in]));
        b.shards.push_back(shard_of(buffers[s.out]));
        break;
    }
    return b;
  }
};

} // namespace detail

} // namespace cleave
