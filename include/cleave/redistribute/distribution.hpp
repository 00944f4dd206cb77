// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/layout/box.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

// Which indices each rank of a communicator has of an array, and the messages from one such distribution to another.

namespace cleave { inline namespace v0 { namespace comm {

/// The devices of a grid among the ranks of a communicator.
struct device_ranks {
  axis_sizes sizes{};
  /// The device of each rank; -1: none.
  indexed_vector<int> device_at{};
};
/// The devices of a grid among the ranks that it was made from.
[[gnu::cold]] inline device_ranks devices_of(const grid_state& g) {
  device_ranks made{g.sizes(), {}};
  for (int r = 0; r < g.everyone().size; ++r) made.device_at.push_back(g.device_at(r));
  return made;
}

/// A block along each dim for each rank. A block is made of ranges in the order of memory.
struct distribution {
  using place = std::array<std::int64_t, std::size_t{max_rank}>;
  int rank = 0;
  std::vector<std::vector<std::vector<range>>> blocks{};
  /// By rank; -1 along the first dim: it has nothing.
  std::vector<place> at{};

  bool has_part(int r) const { return at[as_size(r)][0] >= 0; }
  const std::vector<range>& along(int d, int r) const {
    return blocks[as_size(d)][as_size(at[as_size(r)][as_size(d)])];
  }
  shape extents(int r) const {
    shape s;
    s.rank = rank;
    for (int d = 0; d < rank && has_part(r); ++d)
      for (const range& run : along(d, r)) s[d] += run.size();
    return s;
  }
  /// The part of a rank, if each block is one range; an empty box of a rank that has none.
  box part(int r) const {
    box b;
    b.rank = rank;
    for (int d = 0; d < rank && has_part(r); ++d) b[d] = along(d, r)[0];
    return b;
  }
};

/// The shards of an array. A partial one is written on the devices with coordinate 0 only.
[[gnu::cold]] inline distribution shards_of(const device_ranks& devices, const shape& global, const layout& where,
                                            bool written) {
  const axis_sizes& sizes = devices.sizes;
  distribution made{global.rank, {}, {}};
  made.blocks.resize(as_size(std::max(global.rank, 1)));
  for (int d = 0; d < global.rank; ++d)
    for (std::int64_t b = 0; b < sizes.product(where[d]); ++b)
      made.blocks[as_size(d)].push_back({global.along(d).block(sizes.product(where[d]), b)});
  made.at.resize(devices.device_at.size(), {});
  for (std::size_t r = 0; r < made.at.size(); ++r) {
    const int device = devices.device_at[r];
    auto& place = made.at[r];
    place[0] = device < 0 ? -1 : 0;
    if (device < 0) continue;
    const coordinates at = coordinates_of(device, sizes);
    for (int d = 0; d < global.rank; ++d) place[as_size(d)] = where[d].empty() ? 0 : block_index(where[d], at, sizes);
    if (written && !same_along(where.unreduced(), at, coordinates{})) place[0] = -1;
  }
  return made;
}

/// Of equal parts of a distribution, the ranks that have them take turns in sending. A rank that has a part keeps it.
class sending_turns {
 public:
  [[gnu::cold]] explicit sending_turns(const distribution& from) {
    std::map<distribution::place, std::size_t> known;
    for (int r = 0; r < std::ssize(from.at); ++r) {
      part_.push_back(-1);
      if (!from.has_part(r)) continue;
      const auto [entry, fresh] = known.try_emplace(from.at[as_size(r)], owners_.size());
      if (fresh) owners_.emplace_back();
      part_.back() = as_signed(entry->second);
      owners_[entry->second].push_back(r);
    }
  }
  /// Whether one rank sends its part, or keeps it, to another one that is to have some of it.
  bool sends(int source, int target) const {
    const std::int64_t part = part_[as_size(source)];
    if (part < 0) return false;
    const std::vector<int>& owners = owners_[as_size(part)];
    return (part_[as_size(target)] == part ? target : owners[as_size(target) % owners.size()]) == source;
  }
  /// By part: the ranks that have it.
  const std::vector<std::vector<int>>& owners() const { return owners_; }

 private:
  /// By rank: which part it has, -1: none.
  std::vector<std::int64_t> part_{};
  std::vector<std::vector<int>> owners_{};
};

}}} // namespace cleave::v0::comm
