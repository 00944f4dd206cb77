// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/ops/user.hpp>
#include <cleave/program/buckets.hpp>
#include <cleave/program/exchange_scratch.hpp>
#include <cleave/program/fold_cut.hpp>
#include <cleave/program/move_scratch.hpp>
#include <cleave/program/panels.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 {

/// Memory that steps hold until they are waited for: where it begins, by step, and how much it is together.
struct held_memory {
  indexed_vector<std::int64_t> begin{};
  std::int64_t bytes = 0;
};

/// Steps that are not in flight together have the same memory. `needed` are the bytes of each step; each gets the
/// lowest place that is free.
[[gnu::cold]] constexpr held_memory share_until_waited(const program_view& p,
                                                       const indexed_vector<std::int64_t>& needed) {
  held_memory all{indexed_vector<std::int64_t>(p.steps.size(), 0), 0};
  // Those in flight, by where their memory begins.
  indexed_vector<std::size_t> open;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    if (p.steps[i].kind == step_kind::wait) open.remove(std::size_t{p.steps[i].begun});
    if (needed[i] == 0) continue;
    std::int64_t place = 0;
    std::size_t before = 0;
    while (before < open.size() && all.begin[open[before]] < place + aligned(needed[i])) {
      const std::size_t other = open[before++];
      place = std::max(place, all.begin[other] + aligned(needed[other]));
    }
    all.begin[i] = place;
    all.bytes = std::max(all.bytes, place + aligned(needed[i]));
    while (before > 0 && all.begin[open[before - 1]] > place) --before;
    open.insert(open.begin() + static_cast<std::ptrdiff_t>(before), i);
  }
  return all;
}

}} // namespace cleave::v0

// The memory that a bound program allocates for its calls, predicted from sizes. The steps of the run time take their
// memory from the same functions.

namespace cleave { inline namespace v0 {

/// The workspace of a program on one device, in bytes, by purpose. Arguments and results are not in it. `scratch` is
/// shared: its size is the maximum over all steps.
struct workspace_parts {
  /// The slots of values between steps.
  std::int64_t values = 0;
  /// Memory that steps hold while others run: messages in flight, and small all-reduces that travel as one message.
  std::int64_t held = 0;
  /// The most that a move packs and unpacks if it uses MPI; that a product packs, or a reduction or a scan
  /// keeps for partial results; and that a kernel of yours asks for.
  std::int64_t moves = 0, passes = 0, kernels = 0;

  constexpr std::int64_t scratch() const { return std::max({moves, passes, kernels}); }
  constexpr std::int64_t total() const { return values + held + scratch(); }
};

/// The reductions to one number that run in one pass with adjacent steps use their scratch memory together: at most
/// this many of them.
inline constexpr std::size_t most_folds_in_pass = 4;

/// The scratch memory that a user kernel asks for on a device. If it depends on the context of a run, it is not known.
[[gnu::cold]] constexpr std::int64_t scratch_of_call(const program_view& p, const step& s, const sizes& at,
                                                     const coordinates& here) {
  if (!s.user->workspace.given) return 0;
  indexed_vector<shape> local, whole;
  const auto add = [&](const buffer& b) {
    local.push_back(indices_of(b, p.maps, at, here).extents());
    whole.push_back(shape_of(b.type, at));
  };
  for (std::uint16_t in : s.in) add(p.buffers[in]);
  add(p.buffers[s.out]);
  return s.user->workspace.call(indexed_span<const shape>(local.data(), local.size()),
                                indexed_span<const shape>(whole.data(), whole.size()), at.axes, here);
}

/// The scratch memory that the reductions to one number of one pass over several steps may use together.
[[gnu::cold]] constexpr std::int64_t scratch_of_bands(const program_view& p, const sizes& at, const coordinates& here) {
  std::int64_t most = 0;
  for (std::size_t first = 0; first < p.steps.size();) {
    indexed_vector<std::int64_t> all;
    std::size_t i = first;
    for (; i < p.steps.size() && p.steps[i].in_loop == p.steps[first].in_loop; ++i) {
      const step& s = p.steps[i];
      if (s.kind == step_kind::map) continue;
      if (s.kind != step_kind::fold) break;
      if (const fold_scratch_of_step f = scratch_of_fold(p, s, at, here); f.to_one) all.push_back(aligned(f.bytes));
    }
    std::sort(all.begin(), all.end());
    std::int64_t together = 0;
    for (std::size_t k = 0; k < all.size() && k < most_folds_in_pass; ++k) together += all[all.size() - 1 - k];
    if (all.size() > 1) most = std::max(most, together);
    first = i > first ? i : first + 1;
  }
  return most;
}

struct every_buffer {
  constexpr bool operator()(const buffer&) const { return true; }
};
/// The bytes of each slot of the workspace on a device: `takes_memory` says of which buffers. The bucket of an
/// all-reduce needs none, nor does an operand that a product gathers panel by panel.
template <class TakesMemory = every_buffer>
[[gnu::cold]] constexpr indexed_vector<std::int64_t> slot_bytes(const program_view& p, const sizes& at,
                                                                const coordinates& here,
                                                                const TakesMemory& takes_memory = {}) {
  indexed_vector<std::int64_t> slots(p.slots, 0);
  indexed_vector<bool> elsewhere(p.buffers.size(), false);
  for_each_bucket(p, at, here, [&](const reduce_bucket& b) {
    for (std::size_t i : b.steps)
      if (const step& s = p.steps[i]; lives_in_bucket(p, s)) elsewhere[s.in[0]] = elsewhere[s.out] = true;
  });
  for (const step& s : p.steps)
    if (s.kind == step_kind::move && is_in_panels(p, s, at)) elsewhere[s.out] = true;
  for (std::size_t i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (b.role != role::workspace || b.form == form::view || b.form == form::slice || elsewhere[i] || !takes_memory(b))
      continue;
    slots[b.index] = std::max(slots[b.index], elements_of(b, p.maps, at, here) * size_of(b.type.element));
  }
  return slots;
}

namespace detail {

/// The memory of all-reduces that travel as one message: the message, and in flight the messages that arrive meanwhile.
constexpr std::int64_t held_by_bucket(const program_view& p, const reduce_bucket& b, const sizes& at) {
  const step& first = p.steps[b.steps[0]];
  const element e = p.buffers[first.out].type.element;
  const std::int64_t arriving = first.in_flight
                                    ? comm::held_by_all_reduce(b.bytes / size_of(e), at.axes.product(first.axes), e)
                                    : 0;
  return aligned(b.bytes) + arriving;
}
/// Whether the scratch memory of a step depends on the device's position, if all shards are equally large.
constexpr bool differs_by_place(const program_view& p, const step& s, const sizes& at) {
  if (s.kind == step_kind::exchange) return true;
  if (s.kind == step_kind::call) return s.user->workspace.given;
  if (s.kind != step_kind::move) return false;
  return s.move == kind::collective_permute || (s.move != kind::all_reduce && s.move != kind::mask &&
                                                !comm::stays_in_blocks(comm::transfer_of(p, s, at), at.axes));
}
/// Whether all devices have equally large shards.
constexpr bool alike_everywhere(const program_view& p, const sizes& at) {
  for (const buffer& b : p.buffers)
    for (int i = 0; i < b.type.rank; ++i)
      if (!at.along(b.type[i]).even(at.axes.product(b.where[i]))) return false;
  return true;
}

/// Of an exchange, or of all that share its messages if it is the first of them; the others need nothing.
constexpr std::int64_t scratch_of_exchange(const program_view& p, const step& s, const sizes& at,
                                           const coordinates& here) {
  const std::size_t i = as_size(&s - p.steps.data()), end = end_of_joined(p.steps, i);
  if (first_joined(p.steps, i) != i) return 0;
  if (end == i + 1) return comm::room_of(comm::exchange_of(p, s, at), here).bytes(p.buffers[s.out].type.element);
  indexed_vector<comm::exchange_spec> all;
  for (std::size_t k = i; k < end; ++k) all.push_back(comm::exchange_of(p, p.steps[k], at));
  return comm::joined_scratch(std::move(all), here);
}

/// The scratch memory of one step. `held_by_moves` counts the memory of moves in flight.
constexpr void add_scratch(workspace_parts& w, const program_view& p, const step& s, const sizes& at,
                           const coordinates& here) {
  switch (s.kind) {
    case step_kind::move: {
      if (is_in_panels(p, s, at)) return;
      const comm::transfer t = comm::transfer_of(p, s, at);
      if (!s.in_flight || !comm::may_go_on(s.move, t, at.axes))
        w.moves = std::max(w.moves, comm::scratch_of(s.move, t, at.axes, here));
      return;
    }
    case step_kind::exchange: {
      const std::int64_t n = scratch_of_exchange(p, s, at, here);
      if (s.in_flight) w.held += n;
      else w.moves = std::max(w.moves, n);
      return;
    }
    case step_kind::fold: w.passes = std::max(w.passes, scratch_of_fold(p, s, at, here).bytes); return;
    case step_kind::gemm:
      w.passes = std::max(w.passes, is_in_panels(p, s, at) ? scratch_of_panels(p, s, at, here)
                                                           : scratch_of_product(s, p.buffers, p.maps, at, here));
      return;
    case step_kind::scan: {
      const buffer& b = p.buffers[s.out];
      const int along = b.type.find(dim_along(s));
      shape slices = indices_of(b, p.maps, at, here).extents();
      slices[along] = 1;
      const std::int64_t of_slice = arity_of(s.what) * size_of(b.type.element);
      const std::int64_t n = aligned(slices.elements() * of_slice);
      w.passes = std::max(w.passes, (at.axes.product(b.where[along]) > 1 ? 2 : 1) * n);
      return;
    }
    case step_kind::call: w.kernels = std::max(w.kernels, scratch_of_call(p, s, at, here)); return;
    default: return;
  }
}

/// The memory of moves while they are in flight, by step; nothing of those that share a message.
constexpr indexed_vector<std::int64_t> bytes_in_flight(const program_view& p, const sizes& at,
                                                       const coordinates& here) {
  indexed_vector<std::int64_t> held(p.steps.size(), 0);
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const step& s = p.steps[i];
    if (s.kind != step_kind::move || !s.in_flight) continue;
    const comm::transfer t = comm::transfer_of(p, s, at);
    if (comm::may_go_on(s.move, t, at.axes)) held[i] = comm::held_in_flight(s.move, t, at.axes, here);
  }
  for_each_bucket(p, at, here, [&](const reduce_bucket& b) {
    for (std::size_t i : b.steps) held[i] = 0;
  });
  return held;
}
constexpr bool has_moves_in_flight(const program_view& p) {
  for (const step& s : p.steps)
    if (s.kind == step_kind::move && s.in_flight) return true;
  return false;
}
constexpr std::int64_t held_by_moves(const program_view& p, const sizes& at, const coordinates& here) {
  return has_moves_in_flight(p) ? share_until_waited(p, bytes_in_flight(p, at, here)).bytes : 0;
}
constexpr std::int64_t held_by_buckets(const program_view& p, const sizes& at, const coordinates& here) {
  std::int64_t held = 0;
  for_each_bucket(p, at, here, [&](const reduce_bucket& b) { held += aligned(held_by_bucket(p, b, at)); });
  return held;
}

} // namespace detail

/// The workspace of a program on one device, if arguments and results are contiguous.
constexpr workspace_parts workspace_on(const program_view& p, const sizes& at, const coordinates& here) {
  workspace_parts w;
  for (std::int64_t bytes : slot_bytes(p, at, here)) w.values += aligned(bytes);
  w.held = detail::held_by_buckets(p, at, here) + detail::held_by_moves(p, at, here);
  for (const step& s : p.steps) detail::add_scratch(w, p, s, at, here);
  w.passes = std::max(w.passes, scratch_of_bands(p, at, here));
  return w;
}

namespace detail {

/// Up to this many devices are compared one by one. Of more, devices whose coordinates stand for all.
inline constexpr std::int64_t compared_devices = 256;
/// Coordinates that stand for all: by axis, those at the ends and in the middle, and those around the places at which
/// blocks become short or empty.
class compared_coordinates {
 public:
  constexpr compared_coordinates(const program_view& p, const sizes& at, std::int64_t all_below) : sizes_(at.axes) {
    const bool all = at.axes.devices() <= all_below;
    for (int a = 0; a < max_axes; ++a)
      for (std::int64_t c = 0; c < at.axes[a]; ++c)
        if (all || c < 2 || c + 2 >= at.axes[a] || c == at.axes[a] / 2) add(a, c);
    if (all) return;
    for (const buffer& b : p.buffers)
      for (int i = 0; i < b.type.rank; ++i)
        if (const dim_blocks dim = at.along(b.type[i]); !dim.even(at.axes.product(b.where[i])))
          add_around(dim, b.where[i]);
  }
  /// Calls f(coordinates) for all devices that are compared.
  template <class F>
  constexpr void for_each(F&& f) const {
    coordinates here{};
    indexed_vector<std::size_t> digits(max_axes, 0);
    while (true) {
      for (int a = 0; a < max_axes; ++a) here[a] = along_[a][digits[a]];
      f(here);
      int a = max_axes;
      while (a > 0 && ++digits[a - 1] == along_[a - 1].size()) digits[--a] = 0;
      if (a == 0) return;
    }
  }

 private:
  constexpr void add(int axis, std::int64_t c) {
    const auto at = static_cast<std::int32_t>(c);
    if (c >= 0 && c < sizes_[axis] && std::find(along_[axis].begin(), along_[axis].end(), at) == along_[axis].end())
      along_[axis].push_back(at);
  }
  /// The last block that is not empty, and its neighbours; all blocks if sizes are given.
  constexpr void add_around(const dim_blocks& dim, axis_list list) {
    const std::int64_t parts = sizes_.product(list);
    if (dim.extent == 0) return;
    const std::int64_t at = dim.owner(parts, dim.extent);
    const range compared = dim.given != nullptr ? range{0, parts} : range{at - 1, at + 2};
    for (std::int64_t block = compared.begin; block < compared.end; ++block) {
      coordinates of_block{};
      if (block >= 0 && block < parts) move_to_block(block, list, of_block, sizes_);
      for (int i = 0; i < list.size(); ++i) add(list[i], of_block[list[i]]);
    }
  }

  axis_sizes sizes_;
  indexed_vector<std::int32_t> along_[max_axes];
};

/// The axes along which an exchange is the same for all devices, if shards are equally large.
constexpr axis_set axes_without_effect(const program_view& p, const step& s) {
  axis_set any;
  const std::size_t first = as_size(&s - p.steps.data());
  for (std::size_t i = first; i < end_of_joined(p.steps, first); ++i) {
    any |= p.buffers[p.steps[i].out].where.used();
    for (std::uint16_t in : p.steps[i].in) any |= p.buffers[in].where.used();
  }
  return ~any;
}

/// The workspace on the device that needs most, if up to so many devices are compared one by one. If shards are equally
/// large, only a few steps need different memory on different devices.
constexpr workspace_parts most_workspace(const program_view& p, const sizes& at, std::int64_t compared) {
  workspace_parts most = workspace_on(p, at, coordinates{});
  const compared_coordinates all(p, at, compared);
  if (!alike_everywhere(p, at)) {
    all.for_each([&](const coordinates& here) {
      const workspace_parts own = workspace_on(p, at, here);
      if (own.total() > most.total()) most = own;
    });
    return most;
  }
  workspace_parts common = most;
  common.moves = common.kernels = 0;
  common.held = held_by_buckets(p, at, coordinates{});
  indexed_vector<const step*> by_place;
  indexed_vector<axis_set> without_effect;
  for (const step& s : p.steps) {
    if (!differs_by_place(p, s, at)) {
      add_scratch(common, p, s, at, coordinates{});
    } else {
      by_place.push_back(&s);
      without_effect.push_back(s.kind == step_kind::exchange ? axes_without_effect(p, s) : axis_set{});
    }
  }
  if (by_place.empty()) return most;
  // Of each exchange, by the device with coordinates 0 on the axes without effect.
  struct known {
    std::int64_t device, bytes;
  };
  indexed_vector<indexed_vector<known>> exchanges(by_place.size());
  all.for_each([&](const coordinates& here) {
    workspace_parts own = common;
    for (std::size_t i = 0; i < by_place.size(); ++i) {
      const step& s = *by_place[i];
      if (s.kind != step_kind::exchange) {
        add_scratch(own, p, s, at, here);
        continue;
      }
      const std::int64_t like = device_of(moved_along(without_effect[i], here, 0, at.axes), at.axes);
      const known* found = std::find_if(exchanges[i].begin(), exchanges[i].end(),
                                        [&](const known& k) { return k.device == like; });
      if (found == exchanges[i].end()) {
        exchanges[i].push_back({like, scratch_of_exchange(p, s, at, here)});
        found = &exchanges[i].back();
      }
      (s.in_flight ? own.held : own.moves) = s.in_flight ? own.held + found->bytes : std::max(own.moves, found->bytes);
    }
    own.held += held_by_moves(p, at, here);
    if (own.total() > most.total()) most = own;
  });
  return most;
}

} // namespace detail

/// The workspace on the device that needs most, by purpose.
constexpr workspace_parts parts_of_workspace(const program_view& p, const sizes& at) {
  return detail::most_workspace(p, at, detail::compared_devices);
}

/// Bytes of the workspace on the device that needs most.
constexpr std::int64_t workspace(const program_view& p, const sizes& at) { return parts_of_workspace(p, at).total(); }

}} // namespace cleave::v0
