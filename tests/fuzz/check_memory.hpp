// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory of a plan on the device that needs most, and the devices with which a device exchanges parts, compared
// with loops over all devices.
#pragma once

#include <cleave/study/device_memory.hpp>

#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace fuzz {

using namespace cleave;

/// A part that travels: to or from a device.
using travelling = std::tuple<std::int64_t, box>;

/// Calls f(device, part), in the order of devices, for all that lack a part of the shard of `owner`.
template <class F>
void for_each_lacking(const comm::transfer& t, const axis_sizes& sizes, const coordinates& owner, F&& f) {
  for (std::int64_t d = 0; d < sizes.devices(); ++d) {
    const coordinates at = coordinates_of(d, sizes);
    if (!same_along(t.from.unreduced(), at, owner) || same_along(t.from.sharded(), at, owner)) continue;
    const box part = intersect(comm::held_before(t, owner, sizes), comm::held_after(t, at, sizes));
    if (!part.empty()) f(d, part);
  }
}

/// What is wrong with the parts that a device sends and receives in a general move; nothing if all is well.
inline std::string wrong_parts(const comm::transfer& t, const axis_sizes& sizes, const coordinates& here) {
  const comm::permuted_parts found(t, sizes, here);
  const axis_set replicas = ~t.from.used();
  const std::int64_t each = sizes.product(replicas), own = device_of(here, sizes);
  std::vector<travelling> sent, want_sent, received, want_received;
  found.for_each_sent([&](std::int64_t d, const box& part) { sent.emplace_back(d, part); });
  found.for_each_received([&](std::int64_t d, const box& part) { received.emplace_back(d, part); });
  std::int64_t n = 0;
  for_each_lacking(t, sizes, here, [&](std::int64_t d, const box& part) {
    if (n++ % each == index_along(replicas, here, sizes)) want_sent.emplace_back(d, part);
  });
  for (std::int64_t i = 0; i < sizes.product(t.from.sharded()); ++i) {
    const coordinates owner = moved_along(t.from.sharded(), here, i, sizes);
    std::int64_t turn = 0;
    for_each_lacking(t, sizes, owner, [&](std::int64_t d, const box& part) {
      if (d == own)
        want_received.emplace_back(device_of(moved_along(replicas, owner, turn % each, sizes), sizes), part);
      ++turn;
    });
  }
  return sent == want_sent && received == want_received ? "" : "a move has other parts than a loop over devices finds";
}
/// The same for the members of an exchange.
inline std::string wrong_members(const comm::exchange_spec& e, const coordinates& here) {
  std::vector<bool> member(static_cast<std::size_t>(e.at.axes.devices()), false);
  comm::for_each_member(e, here,
                        [&](std::int64_t d, const coordinates&) { member[static_cast<std::size_t>(d)] = true; });
  const auto filled = comm::detail::all_filled(e, here);
  for (std::int64_t d = 0; d < e.at.axes.devices(); ++d) {
    const coordinates at = coordinates_of(d, e.at.axes);
    if (!member[static_cast<std::size_t>(d)] && (comm::detail::message_to(e, here, at).elements > 0 ||
                                                 comm::detail::message_from(e, filled, here, at).elements > 0))
      return "an exchange misses a device that a loop over devices finds";
  }
  return "";
}

/// Compares a plan on random meshes and extents; the first difference, or nothing. `give_blocks` may give dims blocks.
template <class GiveBlocks>
std::string wrong_memory(const program& p, const sizes& planned, unsigned seed, const GiveBlocks& give_blocks) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (int variant = 0; variant < 3; ++variant) {
    sizes at = planned;
    for (int a = 0; a < p.mesh.size() && variant > 0; ++a) {
      constexpr int some[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 32};
      at.axes[a] = 1;
      if (const int n = some[below(10)]; at.axes.devices() * n <= 256) at.axes[a] = n;
    }
    // Blocks of any size, and equally large ones.
    if (variant > 0)
      for (std::size_t d = 0; d < p.dims.size(); ++d)
        at.dims[d] = variant == 1 ? below(200) : at.axes.devices() * (1 + below(3));
    give_blocks(at);
    workspace_parts most;
    for (std::int64_t d = 0; d < at.axes.devices(); ++d)
      if (const workspace_parts own = workspace_on(p, at, coordinates_of(d, at.axes)); own.total() > most.total())
        most = own;
    if (const std::int64_t found = workspace(p, at); found != most.total())
      return "the workspace is " + std::to_string(found) + " bytes instead of " + std::to_string(most.total());
    // All are exact if so few devices differ; of fewer classes, those that say so.
    for (const std::int64_t limit : {1024, 24}) {
      const compared_workspace found = find_workspace(p, at, limit);
      if (!found.exact && limit == 1024) return "not all classes of devices are compared";
      if (found.exact ? found.parts.total() != most.total() : found.parts.total() > most.total())
        return "of " + std::to_string(limit) + " classes of devices, one needs " + std::to_string(found.parts.total()) +
               " bytes instead of " + std::to_string(most.total());
    }
    for (int k = 0; k < 3; ++k) {
      const coordinates here = coordinates_of(below(at.axes.devices()), at.axes);
      for (const step& s : p.steps) {
        std::string wrong;
        if (s.kind == step_kind::move && s.move != kind::all_reduce && s.move != kind::mask)
          wrong = wrong_parts(comm::transfer_of(p, s, at), at.axes, here);
        if (s.kind == step_kind::exchange && !comm::moves_at_run_time(comm::exchange_of(p, s, at)))
          wrong = wrong_members(comm::exchange_of(p, s, at), here);
        if (!wrong.empty()) return wrong;
      }
    }
  }
  return "";
}

} // namespace fuzz
